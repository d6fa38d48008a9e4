package recorder

import "github.com/opreplay/opreplay/traces"

// WhenAppended has f hear of every row once the trace has it.
func (o *Options) WhenAppended(f func(traces.Record)) { o.appended = f }
