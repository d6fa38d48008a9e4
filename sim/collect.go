package sim

import (
	"os"
	"runtime/debug"
	"sync"
)

// collection is how much the heap may grow over what lives before it is collected, in percent. Most of what lives is
// the API server's own, a hundred megabytes or two that never change; collecting at Go's 100 would be a sixth of all
// work of a busy world, and memory is what there is enough of.
const collection = 300

// collectLess sets that once a process, unless the user has said otherwise (GOGC).
var collectLess = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collection)
	}
})
