package clitest

import (
	"reflect"
	"strings"
	"testing"
)

func TestSteps(t *testing.T) {
	page := strings.ReplaceAll(`# Page
~~~sh
# first
make one   # why

make two \
  --flag
~~~
~~~
two is made
~~~
~~~yaml
make: none
~~~
~~~console
$ make three \
    --x
three is made
$ make four
~~~
~~~sh
#!/bin/sh
make five
~~~
`, "~~~", "```")
	want := []Step{
		{Line: 4, Command: "make one   # why"},
		{Line: 6, Command: "make two --flag", Shown: []string{"two is made"}},
		{Line: 16, Command: "make three --x", Shown: []string{"three is made"}},
		{Line: 19, Command: "make four"},
		{Line: 22, Command: "#!/bin/sh\nmake five\n"},
	}
	got, err := Steps(page)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n got %#v\nwant %#v", err, got, want)
	}
	for page, want := range map[string]string{
		"```\nx\n```\n":                           "before any command",
		"```console\nx\n```\n":                    "before any command",
		"```sh\nx\n```\n```\nopsim test x\n```\n": "mark it as sh",
		"a\n```sh\nx\n":                           "line 2: the block has no end",
	} {
		if _, err := Steps(page); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", page, err, want)
		}
	}
}

func TestPrints(t *testing.T) {
	const printed = `36 of 36 recorded writes made again (100.0 %); 0 not made
  cause     it was told of the deletion (seq 555)
            and has not written since 12.5 s
the same run, c755c88a01
2 cases: 1 ok in 480ms`
	for _, shown := range []string{
		"12 of 12 recorded writes made again (100.0 %)",
		"it was told of the deletion (seq 7) and has not written since 220 ms",
		"36 of 36 … the same run, deadbeef99…\n3 cases: 4 ok in 1m2.5s",
		"0 not made\n …\n2 cases",
	} {
		if err := Prints(printed, shown); err != nil {
			t.Error(err)
		}
	}
	for _, shown := range []string{
		"35 of 36 recorded writes", "writes made again (97.2 %)", "3 not made", "it was told of a deletion", "2 cases … the same run", "the same run, it",
	} {
		if err := Prints(printed, shown); err == nil {
			t.Errorf("%q is said to be in %q", shown, printed)
		}
	}
}
