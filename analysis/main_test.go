package analysis

import (
	"flag"
	"os"
	"testing"
)

// Memory that is used up is overwritten in tests, so that a detector that kept a text of it says what nobody wrote.
func TestMain(m *testing.M) {
	flag.Parse()
	overwrite = flag.Lookup("test.bench").Value.String() == ""
	os.Exit(m.Run())
}
