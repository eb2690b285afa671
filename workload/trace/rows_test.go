package trace

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestTextMovesNoColumn: bars, quotes and line breaks in the names and comments of jobs change none of their numbers. A
// text that is a row by itself may make one, but not unless the row that it stands in is rejected.
func TestTextMovesNoColumn(t *testing.T) {
	piece := rapid.SampledFrom([]string{"|", "\n", "a", " ", "\"", "gres/gpu=9", "COMPLETED", "2026-03-02T08:00:00", "12",
		"||", "\n\n", "x|y", "u|COMPLETED|" + at8})
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(piece, 0, 5).Draw(t, "text"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		header := rapid.SampledFrom([]string{
			"JobIDRaw|JobName|User|State|Submit|Start|End|AllocTRES",
			"JobIDRaw|User|State|Submit|Start|End|AllocTRES|JobName",
			"JobIDRaw|JobName|User|State|Submit|Start|End|AllocTRES|Comment"}).Draw(t, "header")
		var file strings.Builder
		file.WriteString(header + "\n")
		want := map[string]int{}
		for i := range rapid.IntRange(1, 5).Draw(t, "jobs") {
			id, gpus := fmt.Sprint(100+i), 1<<i
			want[id] = gpus
			row := strings.NewReplacer("JobIDRaw", id, "User", "u", "State", "FAILED", "Submit|Start|End", at8,
				"AllocTRES", fmt.Sprint("gres/gpu=", gpus)).Replace(header)
			for _, column := range []string{"JobName", "Comment"} {
				row = strings.Replace(row, column, text.Draw(t, column), 1)
			}
			file.WriteString(row + "\n")
		}
		w, r, err := Read(t.Context(), strings.NewReader(file.String()), "t", Options{})
		if err != nil {
			if !strings.Contains(err.Error(), "rejected") {
				t.Fatal(err)
			}
			return
		}
		for _, j := range w.Jobs() {
			gpus, ok := want[j.ID]
			if !ok && r.Rejected == 0 || ok && j.GPUs.Whole() != gpus || j.Duration.Seconds() != 3600 {
				t.Fatalf("%q: job %s of %d GPUs for %v", file.String(), j.ID, j.GPUs, j.Duration)
			}
		}
		if r.Jobs+r.Rejected < len(want) {
			t.Fatalf("%q: %d jobs, %d rejected", file.String(), r.Jobs, r.Rejected)
		}
	})
}

// FuzzBareSacct: rows without a header are refused or named without a panic, and a table with the names that are
// certain is one of Slurm's.
func FuzzBareSacct(f *testing.F) {
	f.Add([]byte("1_3|u|COMPLETED|" + at8 + "|01:00:00|cpu=1,gres/gpu=2\n"))
	f.Add([]byte("4001|4001|hpc1|gpu|lab|grp|500|u4|501|2026-03-02T08:00:00|" + at8 +
		"|01:00:00|0:0|COMPLETED|1|8|8|16G|gres/gpu=4|gres/gpu=4|3-00:00:00|g1|train|v2\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		_ = hintBareSacct(in)
		named := bareSacct(in)
		if named == "" {
			return
		}
		if table := sacctTable("Account/Partition", '|'); !table.matches([]byte(named + "\n")) {
			t.Fatalf("%q is named %q", in, named)
		}
		checkRead(t, oneFile(bytes.NewReader(in), "f", int64(len(in))), Options{MaxBytes: 1 << 20, MaxLine: 1000})
	})
}
