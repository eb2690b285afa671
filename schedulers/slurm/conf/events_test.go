package conf_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// TestEvents has sacctmgr's output about real nodes, and other output that it may print.
func TestEvents(t *testing.T) {
	const header = "NodeName|TimeStart|TimeEnd|State\n"
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		text string
		zone *time.Location
		want string
	}{
		"nothing": {"", nil, ""},
		"recorded, without a header": {"|2026-11-22T06:13:40|Unknown||Cluster Registered TRES|\n" +
			"g3|2026-11-22T06:35:26|2026-11-22T06:35:28|DRAIN*|test|root(0)\n" +
			"g1|2026-11-22T06:35:26|2026-11-22T06:35:30|DOWN*|broken | twice|root(0)\n", nil,
			"06:35:26 0 down, 06:35:26 2 drain, 06:35:28 2 up, 06:35:30 0 up"},
		"with the cluster": {"emulated|g3|1700000000|1700000060|DOWN|x|y\n", nil, "22:13:20 2 down, 22:14:20 2 up"},
		"a zone":           {header + "g1|2026-11-22T06:00:00|Unknown|DRAIN\n", berlin, "05:00:00 0 drain"},
		"seconds ignore it": {header + "g1|1700000000|Unknown|DOWN*+DRAIN\n", berlin,
			"22:13:20 0 down"},
		"drained, then down, then both end": {header + "g1|10|40|DRAIN\ng1|20|30|DOWN\n", nil,
			"00:00:10 0 drain, 00:00:20 0 down, 00:00:30 0 drain, 00:00:40 0 up"},
		"without a gap": {header + "g1|10|20|DRAIN\ng1|20|30|DRAINED\n", nil, "00:00:10 0 drain, 00:00:30 0 up"},
		"a list": {header + "g[1,3]|10|20|MAINT\n", nil,
			"00:00:10 0 drain, 00:00:10 2 drain, 00:00:20 0 up, 00:00:20 2 up"},
		"a full name": {header + "g1.example.org|10|20|DOWN\ng1|20|30|DRAIN\n", nil,
			"00:00:10 0 down, 00:00:20 0 drain, 00:00:30 0 up"},
		"another case": {header + "G1|10|20|DOWN\n", nil, "00:00:10 0 down, 00:00:20 0 up"},
		"no outage":    {header + "g1|10|20|IDLE\n", nil, ""},
		"another node": {header + "login1|10|20|DOWN\n", nil, ""},
	} {
		s := shown(t)
		s.Events, s.Zone = []byte(tt.text), tt.zone
		site, err := s.Site()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, e := range site.Outages {
			kind := map[workload.EventKind]string{workload.NodeUp: "up", workload.NodeDown: "down",
				workload.NodeDrained: "drain"}[e.Kind]
			at := time.Unix(0, 0).UTC().Add(e.Time).Format(time.TimeOnly)
			got = append(got, fmt.Sprintf("%s %s %s", at, e.Node, kind))
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: %s, want %s", name, strings.Join(got, ", "), tt.want)
		}
		left := strings.Contains(strings.Join(site.Notes, "\n"), "1 nodes are not among")
		if left != (name == "another node") {
			t.Errorf("%s: %q", name, site.Notes)
		}
	}
	for text, want := range map[string]string{
		"a|b\n":                                "events.txt:1: neither has columns",
		header + "g1|x|Unknown|DOWN\n":         `events.txt:2: TimeStart: "x" is neither`,
		header + "g1|20|y|DOWN\n":              `events.txt:2: TimeEnd: "y" is neither`,
		header + "g1|20|10|DOWN\n":             "events.txt:2: TimeEnd is before TimeStart",
		header + "g1|20\n":                     "events.txt:2: has 2 columns, and State is the 4th",
		header + "g[1|20|30|DOWN\n":            "events.txt:2: NodeName",
		"\n" + header + "\ng1|20|30|DOWN\nx\n": "events.txt:5: has 1 columns",
	} {
		s := shown(t)
		s.Events = []byte(text)
		if _, err := s.Site(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestEventsCoverEachInstant: at every second a node is in the worst of the states that a row has it in.
func TestEventsCoverEachInstant(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	for range 100 {
		var worst [40]workload.EventKind
		for i := range worst {
			worst[i] = workload.NodeUp
		}
		var text strings.Builder
		text.WriteString("NodeName|TimeStart|TimeEnd|State\n")
		for range r.IntN(6) {
			from := 1 + r.IntN(38)
			to, state, kind := from+1+r.IntN(10), "DRAIN", workload.NodeDrained
			if r.IntN(2) == 0 {
				state, kind = "DOWN", workload.NodeDown
			}
			end := strconv.Itoa(to)
			if to >= len(worst) {
				end, to = "Unknown", len(worst)
			}
			fmt.Fprintf(&text, "g2|%d|%s|%s\n", from, end, state)
			for i := from; i < to; i++ {
				if kind == workload.NodeDown || worst[i] == workload.NodeUp {
					worst[i] = kind
				}
			}
		}
		s := shown(t)
		s.Events = []byte(text.String())
		site, err := s.Site()
		if err != nil {
			t.Fatal(err)
		}
		now, next := workload.NodeUp, site.Outages
		for i, want := range worst {
			for len(next) > 0 && next[0].Time == time.Duration(i)*time.Second {
				if next[0].Kind == now {
					t.Fatalf("%s\n%+v does not change anything", text.String(), next[0])
				}
				now, next = next[0].Kind, next[1:]
			}
			if now != want {
				t.Fatalf("%s\nat %d it is %v, want %v", text.String(), i, now, want)
			}
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("NodeName|TimeStart|TimeEnd|State\ng1|10|Unknown|DOWN\n")
	f.Add("c|g[1-2]|2026-11-22T06:13:40|2026-11-22T07:13:40|DRAIN||\n")
	s := shown(f)
	f.Fuzz(func(t *testing.T, text string) {
		s := s
		s.Events = []byte(text)
		site, err := s.Site()
		if err != nil {
			return
		}
		for _, e := range site.Outages {
			if n, err := strconv.Atoi(e.Node); err != nil || site.Cluster.GroupOf(n) < 0 {
				t.Errorf("%+v is not of the cluster", e)
			}
		}
	})
}
