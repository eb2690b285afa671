package audit

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func testLog(t testing.TB, n int) (lines [][]byte, head Head) {
	t.Helper()
	for i := range n {
		line, next, err := Append(head, Record{Time: time.Unix(int64(i), 0).UTC(),
			Origin: Origin{Actor: "alice", Verb: "PauseTuning", RequestID: fmt.Sprint("r", i),
				Reason: "a \"reason\" <ä>"},
			Resource: "schedulers/s", RevisionBefore: int64(i), RevisionAfter: int64(i + 1),
			Fields: []Field{{Name: "paused", After: "true"}}})
		if err != nil {
			t.Fatal(err)
		}
		lines, head = append(lines, line), next
	}
	return lines, head
}

func join(lines [][]byte) []byte {
	if len(lines) == 0 {
		return nil
	}
	return append(bytes.Join(lines, []byte("\n")), '\n')
}

func TestEveryBitCounts(t *testing.T) {
	lines, head := testLog(t, 3)
	text := join(lines)
	if got, err := Verify(bytes.NewReader(text), head.Hash); err != nil || got != head {
		t.Fatal(got, err)
	}
	starts := []int{0, len(lines[0]) + 1, len(lines[0]) + len(lines[1]) + 2}
	for bit := range 8 * len(text) {
		bad := bytes.Clone(text)
		bad[bit/8] ^= 1 << (bit % 8)
		_, err := Verify(bytes.NewReader(bad), "")
		at := 0
		for at+1 < len(starts) && starts[at+1] <= bit/8 {
			at++
		}
		if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), fmt.Sprintf("at record %d: ", at+1)) {
			t.Fatalf("bit %d of record %d: %v", bit, at+1, err)
		}
	}
}

func TestRecordsKeepTheirPlaces(t *testing.T) {
	lines, head := testLog(t, 5)
	other, _ := testLog(t, 1)
	forged, _, err := Append(Head{Sequence: 2, Hash: strings.Repeat("0", 64)}, Record{Resource: "schedulers/s"})
	if err != nil {
		t.Fatal(err)
	}
	swapped := slices.Clone(lines)
	swapped[1], swapped[2] = swapped[2], swapped[1]
	replaced := slices.Clone(lines)
	replaced[2] = forged
	for name, c := range map[string]struct {
		lines [][]byte
		head  string
		says  string
	}{
		"whole":                {lines, head.Hash, ""},
		"empty":                {nil, "", ""},
		"removed":              {slices.Delete(slices.Clone(lines), 2, 3), "", "at record 3: record 4"},
		"first removed":        {lines[1:], "", "at record 1: record 2"},
		"swapped":              {swapped, "", "at record 2: record 3"},
		"twice":                {slices.Insert(slices.Clone(lines), 1, other[0]), "", "at record 2: record 1"},
		"another in its place": {replaced, "", "at record 3: it follows"},
		"truncated":            {lines[:4], head.Hash, "none of its 4 records"},
		"truncated, no head":   {lines[:4], "", ""},
		"all gone":             {nil, head.Hash, "none of its 0 records"},
		"not a log":            {[][]byte{[]byte("{}")}, "", "at record 1: it is not of the form"},
	} {
		_, err := Verify(bytes.NewReader(join(c.lines)), c.head)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, ErrBroken) ||
			!strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	if _, err := Verify(bytes.NewReader(join(lines)[:100]), ""); !errors.Is(err, ErrBroken) {
		t.Error(err)
	}
}

// TestChains: the records of each resource are a chain, and an anchor finds that the end of one is missing. A log may
// begin with an anchor.
func TestChains(t *testing.T) {
	heads, anchors := map[string]Head{}, Head{}
	var lines [][]byte
	add := func(chain, verb string) {
		t.Helper()
		line, next, err := Append(heads[chain], Record{Origin: Origin{Verb: verb}, Resource: chain, Chain: chain})
		if err != nil {
			t.Fatal(err)
		}
		lines, heads[chain] = append(lines, line), next
	}
	anchor := func() {
		t.Helper()
		line, next, err := Append(anchors, NewAnchor(time.Time{}, heads))
		if err != nil {
			t.Fatal(err)
		}
		lines, anchors = append(lines, line), next
		maps.DeleteFunc(heads, func(_ string, h Head) bool { return h.Ended })
	}
	add("a", "Pin")      // 0
	add("b", "Pin")      // 1
	add("a", "Pin")      // 2
	add("b", Purge)      // 3
	add("b", "Register") // 4, before an anchor: the chain goes on
	add("b", Purge)      // 5
	anchor()             // 6
	add("b", "Register") // 7, a new chain
	add("a", "Pin")      // 8
	anchor()             // 9
	without := func(i int) [][]byte { return slices.Delete(slices.Clone(lines), i, i+1) }
	for name, c := range map[string]struct {
		lines [][]byte
		says  string
	}{
		"whole":                     {lines, ""},
		"from an anchor":            {lines[6:], ""},
		"from the last anchor":      {lines[9:], ""},
		"from a record":             {lines[7:8], ""},
		"from a later record":       {lines[8:], "record 3 of a is in its place"},
		"first of a removed":        {without(0), "record 2 of a is in its place"},
		"last of a removed":         {without(2), "the anchor has the head 2:"},
		"last of b removed":         {without(5), "the anchor has the head 4:"},
		"all of b removed":          {slices.Concat(lines[:1], lines[2:3], lines[6:]), "of b, and the log 0:"},
		"beyond the first anchor":   {slices.Concat(lines[6:8], lines[9:]), "the anchor has the head 3:"},
		"an anchor removed":         {without(6), "record 1 of b is in its place"},
		"a chain that is not named": {slices.Concat(lines[:6], lines[7:8], lines[6:7]), "record 1 of b"},
		"more than is named":        {slices.Concat(lines[6:7], lines[9:]), "the anchor has the head"},
	} {
		head, err := Verify(bytes.NewReader(join(c.lines)), "")
		if c.says == "" && (err != nil || head.Sequence != int64(len(c.lines))) ||
			c.says != "" && (!errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, %v, want %q", name, head, err, c.says)
		}
	}
}

func FuzzVerify(f *testing.F) {
	lines, _ := testLog(f, 2)
	f.Add(join(lines))
	f.Add([]byte(lineHash + "x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		head, err := Verify(bytes.NewReader(text), "")
		if err != nil && !errors.Is(err, ErrBroken) {
			t.Fatal(err)
		}
		if err == nil && head.Sequence != int64(bytes.Count(text, []byte("\n"))) {
			t.Fatal(head)
		}
	})
}
