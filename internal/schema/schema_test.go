package schema

import (
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{struct{}{}, "{\n  \"schema\": \"autosched.x/v1\"\n}\n"},
		{map[string]any{"a": "<"}, "{\n  \"schema\": \"autosched.x/v1\",\n  \"a\": \"<\"\n}\n"},
	} {
		var b strings.Builder
		if err := Write(&b, "x/v1", c.v); err != nil || b.String() != c.want {
			t.Errorf("Write(%v) = %q, %v, want %q", c.v, b.String(), err, c.want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a list is written without a schema")
		}
	}()
	Marshal("x/v1", []int{1})
}
