package jet

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/autosched/autosched/service/store"
)

// An entry whose hash is right and that has no ops where there should be some is damaged, not a panic.
func TestEntryOfNull(t *testing.T) {
	text, _ := (&entry{Term: 1}).encode([]json.RawMessage{[]byte("null")}, 0)
	if _, err := decode(1, text, store.Place{}); !errors.Is(err, errEntry) {
		t.Error(err)
	}
}
