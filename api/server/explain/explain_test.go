package explain

import "testing"

func TestSentence(t *testing.T) {
	for in, want := range map[string]string{"it was approved": "it was approved.", "No node is up.": "No node is up."} {
		if got := sentence(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
