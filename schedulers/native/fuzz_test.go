package native_test

import (
	"testing"

	"github.com/autosched/autosched/schedulers/native"
)

// FuzzParse: a file is read or refused, and what was read is rendered to a file that is read alike.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"a: 1\nb: [1, 2.5]\nc: off\nd: true\ne: '3'\n", "# no option\n", "a: &x 1\nb: *x\n", "- 1",
		"? [a]\n: 1\n", "a: 1e999",
		"\x00", "a: !!binary aGk=\n", "!!str a: 0x10\nb: 0o7\nc: 1_000\n", "'': 1", "a: ''"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var form native.Options
		values, err := form.Parse(text)
		if err != nil {
			return
		}
		again, err := form.Render(values)
		if err != nil {
			t.Fatalf("%v: %v", values, err)
		}
		got, err := form.Parse(again)
		if err != nil || len(got) != len(values) {
			t.Fatalf("%v is read as %v, %v from\n%s", values, got, err, again)
		}
		for id, v := range values {
			if !got[id].Equal(v) {
				t.Fatalf("%q: %v is read as %v from\n%s", id, v, got[id], again)
			}
		}
	})
}
