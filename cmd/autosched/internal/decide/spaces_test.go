package decide

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/space"
)

func TestSchedulerSpaces(t *testing.T) {
	code, out, errs := clitest.Run("scheduler", "spaces")
	if code != 0 {
		t.Fatal(errs)
	}
	for _, s := range schedulers.All {
		if !strings.Contains(out, s.Name+": "+s.Title) || !strings.Contains(out, s.Paper) {
			t.Errorf("%s is not described", s.Name)
		}
		for _, p := range s.Space.Params() {
			if !strings.Contains(out, p.ID) || !strings.Contains(out, p.Range()) {
				t.Errorf("%s: %s is not described", s.Name, p.ID)
			}
		}
	}
	_, one, _ := clitest.Run("scheduler", "spaces", "tiresias")
	for _, want := range []string{"queue_thresholds has as many values as queues -1, at most 5",
		"values of queue_thresholds increase", "preset ladder-7200x6: queues=5"} {
		if !strings.Contains(one, want) {
			t.Errorf("%q is missing in\n%s", want, one)
		}
	}
	want := "leaves slo_share, slo_factor unchanged, and slo_gpus where no job has a deadline"
	if !strings.Contains(out, want) || strings.Contains(one, "leaves") {
		t.Errorf("%q is missing, or said of others", want)
	}
	if strings.Contains(one, "themis") {
		t.Error("others are shown as well")
	}
}

// TestSchedulerSpacesJSON reads the spaces back.
func TestSchedulerSpacesJSON(t *testing.T) {
	code, out, errs := clitest.Run("scheduler", "spaces", "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	var got struct {
		Schedulers []struct {
			Name    string
			Space   space.Space
			Default json.RawMessage
			Presets []struct {
				Name          string
				Configuration json.RawMessage
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Schedulers) != len(schedulers.All) {
		t.Fatalf("%d schedulers", len(got.Schedulers))
	}
	for i, s := range schedulers.All {
		g := &got.Schedulers[i]
		if g.Name != s.Name || g.Space.Digest() != s.Space.Digest() || len(g.Presets) != len(s.Presets) {
			t.Errorf("%s is not what was printed: %+v", s.Name, g)
		}
		if c, err := s.Space.ParseJSON(g.Default); err != nil || !c.Equal(s.Space.Default()) {
			t.Errorf("%s: default: %v", s.Name, err)
		}
		for k, p := range g.Presets {
			if c, err := s.Space.ParseJSON(p.Configuration); err != nil || !c.Equal(s.Presets[k].Config) {
				t.Errorf("%s: preset %s: %v", s.Name, p.Name, err)
			}
		}
	}
}

func TestSchedulerSpacesMisuse(t *testing.T) {
	for args, want := range map[string]string{"scheduler spaces magic": "tiresias",
		"scheduler spaces fifo sjf": "one scheduler"} {
		if code, _, errs := clitest.Run(strings.Fields(args)...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q", args, code, errs)
		}
	}
}

// TestEverySettingRuns sets every parameter of every scheduler as 'scheduler
// spaces' prints its values, and runs.
func TestEverySettingRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	trace := filepath.Join(t.TempDir(), "t.csv")
	rows := "job_id,submit_time_s,duration_s,num_gpus,vc\na,0,4000,8,x\nb,10,3000,4,y\nc,20,500,1,x\nd,30,600,2,y\ne,40,700,1,y\n"
	if err := os.WriteFile(trace, []byte(rows), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, s := range schedulers.All {
		params := s.Space.Params()
		for i := range params {
			p := &params[i]
			for _, at := range []float64{0, .6, 1} {
				x := s.Space.Encode(s.Space.Default())
				for d := range x {
					if s.Space.Dim(d).Param == p.ID || p.Array != nil {
						x[d] = at
					}
				}
				c := s.Space.Decode(x)
				args := []string{"simulate", "--trace", trace, "--nodes", "2", "--scheduler", s.Name, "--vc", "auto",
					"--quota", "borrow", "--estimates", "0.5", "--json"}
				// Prerequisites of the value, such as the length of an array.
				for k := range params {
					if q := &params[k]; c.Has(q.ID) && (q.ID == p.ID || !c.Get(q.ID).Equal(q.Default)) {
						args = append(args, "--set", q.ID+"="+q.Format(c.Get(q.ID)))
					}
				}
				code, out, errs := clitest.Run(args...)
				var r struct {
					Jobs          int
					Configuration json.RawMessage
				}
				if code != 0 || json.Unmarshal([]byte(out), &r) != nil || r.Jobs != 5 {
					t.Errorf("%v: exit %d: %s", args[7:], code, errs)
					continue
				}
				if got, err := s.Space.ParseJSON(r.Configuration); err != nil || !got.Equal(c) {
					t.Errorf("%v: ran %s, want %s", args[7:], r.Configuration, c)
				}
			}
		}
	}
}
