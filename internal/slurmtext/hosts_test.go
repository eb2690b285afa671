package slurmtext_test

import (
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/slurmtext"
)

func TestHostList(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"None assigned":            "",
		"gpu1":                     "gpu1",
		"gpu[001-003,7],login1":    "gpu001 gpu002 gpu003 gpu7 login1",
		"a[9-11]":                  "a9 a10 a11",
		"r[1-2]n[01,03]x":          "r1n01x r1n03x r2n01x r2n03x",
		"b,a":                      "b a",
		"10.0.0.[1-2],host-a[2]-b": "10.0.0.1 10.0.0.2 host-a2-b",
	} {
		got, err := slurmtext.HostList(text)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"a[1-":                       "brackets",
		"a[1,2":                      "brackets",
		"a[1-9:2]":                   "not a number",
		"a b":                        "blank",
		"a1]":                        "brackets",
		"a[[1]]":                     "brackets",
		"a[]":                        "not a number",
		"a[x]":                       "not a number",
		"a[3-1]":                     "not a number",
		"a[-1]":                      "not a number",
		"a,,b":                       "a name is missing",
		"a,":                         "a name is missing",
		"a[0-999999]":                "more than 20000",
		"a[0-9999]b[0-9999]c[0-999]": "more than 20000",
	} {
		if got, err := slurmtext.HostList(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d names, %v; want %q", text, len(got), err, want)
		}
	}
}

// TestHosts: names in any case match, and of a short and a full one the parts before the first dot.
func TestHosts(t *testing.T) {
	for _, tt := range []struct{ hosts, name, want string }{
		{"a b", "b", "b"},
		{"a b", "c", ""},
		{"a b", "", ""},
		{"a A", "A", "A"},
		{"a A", "a", "a"},
		{"Ab AB", "ab", ""},
		{"gpu1", "GPU1", "gpu1"},
		{"GPU1", "gpu1.x", "GPU1"},
		{"gpu1.x", "gpu1", "gpu1.x"},
		{"gpu1.X", "GPU1", "gpu1.X"},
		{"gpu1.x", "gpu1.X", "gpu1.x"},
		{"gpu1.x", "gpu1.y", ""},
		{"gpu1.x gpu1.y", "gpu1", ""},
		{"gpu1.x gpu1.y", "gpu1.y", "gpu1.y"},
		{"gpu1 gpu1.x", "gpu1", "gpu1"},
		{"gpu1 gpu1.x", "gpu1.y", ""},
		{"gpu1", "gpu11.x", ""},
		{"10.0.0.1", "10", ""},
		{"10.0.0.1", "10.0.0.1", "10.0.0.1"},
		{"10.0.0.1", "10.0.0.2", ""},
	} {
		full := map[string]string{}
		for _, name := range strings.Fields(tt.hosts) {
			full[name] = name
		}
		if got, ok := slurmtext.NewHosts(full).Find(tt.name); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%q of %s: %q, %v, want %q", tt.name, tt.hosts, got, ok, tt.want)
		}
	}
}

// FuzzText takes any text to every reader.
func FuzzText(f *testing.F) {
	for _, text := range []string{"gpu[001-003,7],login1", "r[1-2]n[01,03]x", "gres/gpu=2,gres/gpu:1g.10gb=2,mem=62.5G",
		"gpu:a100:4(S:0-1),shard:32", "gpu:2(IDX:0-1)", "15_[3-9:2%2]", "123+1.batch", "7-00:00:10", "UNLIMITED",
		"CANCELLED by 1000", "IDLE+CLOUD+POWERED_DOWN", "a|b\n1|2\n", "NodeName=g1 Gres=gpu:8 State=IDLE\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		names, err := slurmtext.HostList(text)
		if (err == nil) != (len(names) > 0 || text == "" || text == "None assigned") {
			t.Errorf("%q: %d names, %v", text, len(names), err)
		}
		tres, err := slurmtext.ParseTRES(text)
		if share, failed := tres.Share(8); err == nil && failed == nil && (share.NearestMilli() < 0 ||
			share.NearestMilli() > 1_000_000_000 || tres.MilliCPUs < 0 || tres.Memory < 0) {
			t.Errorf("%q: %+v", text, tres)
		}
		if n, err := slurmtext.ParseNodeGPUs(text); err == nil && (n.GPUs.NearestGPUs() < 0 || n.Shards < 0) {
			t.Errorf("%q: %+v", text, n)
		}
		id := slurmtext.ParseJobID(text)
		count, last := 0, -1
		for n := range id.Tasks.All() {
			if count++; n <= last {
				t.Fatalf("%q: task %d follows %d", text, n, last)
			}
			last = n
		}
		if count != id.Tasks.Len() {
			t.Errorf("%q: %d tasks, and Len is %d", text, count, id.Tasks.Len())
		}
		span, err := slurmtext.ParseSpan(text)
		if elapsed, failed := slurmtext.ParseElapsed(text); err == nil && span < 0 || failed == nil && elapsed != span {
			t.Errorf("%q: %v, %v", text, span, elapsed)
		}
		if limit, err := slurmtext.ParseLimit(text); err != nil && limit != 0 || limit < 0 {
			t.Errorf("%q: %v, %v", text, limit, err)
		}
		if s := slurmtext.ParseJobState(text); !s.Ended && s.Outcome != slurmtext.Undetermined {
			t.Errorf("%q: %+v", text, s)
		}
		slurmtext.ParseNodeState(text)
		slurmtext.Records(text, "nodename")
		if rows, err := slurmtext.Table(text); err != nil && rows != nil {
			t.Errorf("%q: %v, %v", text, rows, err)
		}
	})
}
