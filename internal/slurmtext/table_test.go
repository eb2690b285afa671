package slurmtext_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/slurmtext"
)

// printed is the output of sacct of rows of columns, by the arguments of a listing.
func printed(t *rapid.T, l slurmtext.Listing, rows []map[string]string) string {
	delimiter, format := "|", ""
	for _, a := range l.Args() {
		if of, ok := strings.CutPrefix(a, "--delimiter="); ok {
			delimiter = of
		}
		if of, ok := strings.CutPrefix(a, "--format="); ok {
			format = of
		}
	}
	if !slices.Contains(l.Args(), "-P") || !slices.Contains(l.Args(), "-n") {
		t.Fatalf("sacct %q prints other tables", l.Args())
	}
	columns := strings.Split(format, ",")
	if columns[len(columns)-1] != "JobName" {
		t.Fatalf("the name is not last in %s", format)
	}
	var b strings.Builder
	for _, r := range rows {
		for i, c := range columns {
			if i > 0 {
				b.WriteString(delimiter)
			}
			b.WriteString(r[strings.ToLower(c)])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestNamesForgeNoRow: whatever users call their jobs, the rows are those of Slurm, column by column.
func TestNamesForgeNoRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "seed")
		l, err := slurmtext.NewListing(bytes.NewReader(seed), "JobID", "State", "User")
		if err != nil {
			t.Fatal(err)
		}
		name := rapid.OneOf(rapid.StringMatching(`[a-z|\n'" ]{0,20}`), rapid.SampledFrom([]string{"x\n4|COMPLETED|root|y", "\n",
			"|||", "a\n\nb\n", "\r\n", "COMPLETED\n1|2|3|4\n"}), rapid.Map(rapid.String(), func(s string) string {
			return strings.ReplaceAll(s, "\x00", "")
		}))
		var want []map[string]string
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			want = append(want, map[string]string{"jobid": rapid.StringMatching("[0-9_]{1,4}").Draw(t, "id"),
				"state": "RUNNING", "user": rapid.StringMatching("[a-z|]{0,3}").Draw(t, "user"), "jobname": name.Draw(t, "name")})
		}
		text := printed(t, l, want)
		got, faults := l.Rows(text)
		if faults != 0 || !slices.EqualFunc(got, want, func(a slurmtext.Record, b map[string]string) bool {
			return maps.Equal(map[string]string(a), b)
		}) {
			t.Errorf("%q are read as %q with %d faults", want, got, faults)
		}
	})
}

// TestRowsOfOtherWidths: a row with fewer or more fields is left out with the lines behind it, and counted.
func TestRowsOfOtherWidths(t *testing.T) {
	l, err := slurmtext.NewListing(bytes.NewReader(make([]byte, 16)), "JobID", "State")
	if err != nil {
		t.Fatal(err)
	}
	d := strings.TrimPrefix(l.Args()[2], "--delimiter=")
	for text, want := range map[string]struct {
		rows   string
		faults int
	}{
		"":                        {"", 0},
		"1" + d + "A" + d + "x\n": {"1 x", 0},
		"1" + d + "A\nmore\n2" + d + "B" + d + "y\nz\n":                  {"2 y\nz", 1},
		"1" + d + "A" + d + "x\n2" + d + "B" + d + "C" + d + "y\nmore\n": {"1 x", 1},
		"sacct: error\nof two lines\n1" + d + "A" + d + "x\n":            {"1 x", 1},
		"1" + d + "A" + d + "x":                                          {"1 x", 0},
	} {
		rows, faults := l.Rows(text)
		var got []string
		for _, r := range rows {
			got = append(got, r["jobid"]+" "+r["jobname"])
		}
		if strings.Join(got, ",") != want.rows || faults != want.faults {
			t.Errorf("%q: %q with %d faults, want %+v", text, got, faults, want)
		}
	}
	other, err := slurmtext.NewListing(bytes.NewReader(bytes.Repeat([]byte{1}, 16)), "JobID", "State")
	if err != nil || slices.Equal(other.Args(), l.Args()) {
		t.Errorf("%v: two draws give %q", err, l.Args())
	}
	if _, err := slurmtext.NewListing(bytes.NewReader(make([]byte, 15))); err == nil {
		t.Error("a delimiter of 15 bytes is drawn")
	}
}

func TestTable(t *testing.T) {
	rows, err := slurmtext.Table("Name|Time Start\r\nhigh|5\nlow|\n", "name")
	if err != nil || len(rows) != 2 || rows[0]["timestart"] != "5" || rows[1]["name"] != "low" || rows[1]["timestart"] != "" {
		t.Errorf("%v, %v", rows, err)
	}
	for text, want := range map[string]string{"Name|Time\na|1|2\n": "2: has 3 columns, and the first line 2",
		"Nam|Time\n": "1: there is no column name"} {
		if _, err := slurmtext.Table(text, "name"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestRecords: records are on a line or on several, values may have blanks, and comments add nothing.
func TestRecords(t *testing.T) {
	const text = "Node list:\nNodeName=g1 Gres=gpu:8 OS=Linux 5.10 #1 SMP State=IDLE+DRAIN Comment=(null)\n" +
		"   Reason=broken Gres=gpu:99 or Partitions=x so [root]\n   Comment=Owner=me InstanceId=i-1\nNodeName=g2\n   Gres=(null)\n   NodeName=g3\n"
	got := slurmtext.Records(text, "nodename")
	want := []slurmtext.Record{{"nodename": "g1", "gres": "gpu:8", "os": "Linux 5.10 #1 SMP", "state": "IDLE+DRAIN",
		"comment": "", "reason": "broken", "instanceid": "i-1"}, {"nodename": "g2", "gres": ""}, {"nodename": "g3"}}
	if !slices.EqualFunc(got, want, func(a, b slurmtext.Record) bool { return maps.Equal(a, b) }) {
		t.Errorf("%q, want %q", got, want)
	}
}
