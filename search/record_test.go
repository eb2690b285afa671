package search

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/autosched/autosched/space"
	"github.com/google/go-cmp/cmp"
)

// TestRecord: the record has a header, then the trials and the rejections in their order.
func TestRecord(t *testing.T) {
	var b bytes.Buffer
	proposals := 0
	o := Options{Space: ladder(t), Evaluate: ladderCost, Budget: 12, Seed: 1, Record: Record{To: &b,
		About: map[string]string{"scheduler": "ladder"}},
		Reject: func([]Trial, space.Config) string {
			if proposals++; proposals%3 == 0 {
				return "no"
			}
			return ""
		}}
	want, err := Tune(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(b.String(), "\n"), "\n")
	var h Header
	if err := json.Unmarshal([]byte(lines[0]), &h); err != nil || h.Version != RecordVersion || h.Budget != 12 ||
		h.Sampler != DefaultSampler || h.Seed != 1 || h.About["scheduler"] != "ladder" || h.Space != o.Space.Digest() {
		t.Errorf("%v, %s", err, lines[0])
	}
	trials, rejected := 0, 0
	for _, line := range lines[1:] {
		var trial, rejection any
		if strings.HasPrefix(line, `{"trial"`) {
			trial = want.Trials[trials]
			trials++
		} else {
			rejection = want.Rejected[rejected]
			rejected++
		}
		text, err := json.Marshal(struct {
			Trial     any `json:"trial,omitempty"`
			Rejection any `json:"rejected,omitempty"`
		}{trial, rejection})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(text), strings.TrimSuffix(line, "\n")); diff != "" {
			t.Errorf("line %d: %s", trials+rejected, diff)
		}
	}
	if trials != 12 || rejected == 0 || rejected != len(want.Rejected) {
		t.Errorf("%d trials and %d rejections in the record", trials, rejected)
	}
}

// TestTrialsTellWhereTheyComeFrom: suggested values, projection and measured
// configuration are consistent.
func TestTrialsTellWhereTheyComeFrom(t *testing.T) {
	s := ladder(t)
	for _, method := range samplerNames() {
		proposals := 0
		r, err := Tune(context.Background(),
			Options{Space: s, Evaluate: ladderCost, Method: method, Budget: 30, Seed: 5,
				Reject: func(h []Trial, c space.Config) string {
					if proposals++; len(h) > 3 && proposals%5 == 0 {
						return "for the test"
					}
					return ""
				},
				Scope: func(_ []Trial, c space.Config) (space.Config, []string) {
					if c.Get("queues").Int() != 5 {
						return c, nil
					}
					values := valuesOf(c)
					values["queues"] = space.Int(4)
					out, _ := s.Project(values)
					return out, []string{"five is too many"}
				}})
		if err != nil && method != "bluefin" {
			t.Fatal(err)
		}
		projected := 0
		check := func(config space.Config, p Provenance) {
			if len(p.Narrowed) > 0 {
				if p.Projected == nil || p.Projected.Equal(config) {
					t.Errorf("%s: narrowed from %v to %v", method, p.Projected, config)
				}
				config = *p.Projected
			}
			if p.Suggested != nil {
				projected++
				if c, changes := s.Project(p.Suggested); !c.Equal(config) || len(changes) == 0 {
					t.Errorf("%s: %v was projected to %s, not %s", method, p.Suggested, c, config)
				}
			}
		}
		for _, x := range r.Trials {
			check(x.Config, x.Provenance)
		}
		for _, x := range r.Rejected {
			check(x.Config, x.Provenance)
			if x.Origin == "" || x.Reason == "" || x.Round < 1 {
				t.Errorf("%s: rejection %+v", method, x)
			}
		}
		if projected == 0 && method != "bluefin" && method != "local" || projected > 25 || len(r.Rejected) == 0 {
			t.Errorf("%s: %d of %d suggestions were changed by rules, %d rejected",
				method, projected, len(r.Trials), len(r.Rejected))
		}
	}
}

// TestTimeIsUp: the study ends in time, with the trials so far; the default and
// the incumbent are measured in any case.
func TestTimeIsUp(t *testing.T) { synctest.Test(t, timeIsUp) } // on a simulated clock

func timeIsUp(t *testing.T) {
	s := ladder(t)
	incumbent, _ := s.Parse(s.Default(), []string{"queues=4"})
	slow := func(ctx context.Context, c space.Config) (Measurement, error) {
		select {
		case <-ctx.Done():
			return Measurement{}, ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
		return Measurement{Values: []float64{c.Get("queues").Float()}}, nil
	}
	for _, c := range []struct {
		time  time.Duration
		least int
	}{{time.Nanosecond, 2}, {60 * time.Millisecond, 40}} {
		r, err := Tune(context.Background(), Options{Space: s, Evaluate: slow, Incumbent: incumbent, Budget: 1e6,
			Workers: 2, Time: c.time, Method: "random"})
		if err != nil || r.Stopped != StoppedTime || len(r.Trials) < c.least || r.Best < 0 || r.Incumbent != 1 ||
			r.Default != 0 {
			t.Errorf("%v: %v, %s after %d trials, best %d", c.time, err, r.Stopped, len(r.Trials), r.Best)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Tune(ctx, Options{Space: s, Evaluate: slow, Time: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled from the start: %v", err)
	}
}

type fullDisk struct{ room int }

func (d *fullDisk) Write(b []byte) (int, error) {
	if d.room -= len(b); d.room < 0 {
		return 0, errors.New("no space left")
	}
	return len(b), nil
}

func TestRecordingFails(t *testing.T) {
	for _, room := range []int{0, 2000} {
		r, err := Tune(context.Background(),
			Options{Space: ladder(t), Evaluate: ladderCost, Budget: 20, Record: Record{To: &fullDisk{room}}})
		if err == nil || !strings.Contains(err.Error(), "recording the trials: no space left") || len(r.Trials) >= 20 {
			t.Errorf("room %d: %v after %d trials", room, err, len(r.Trials))
		}
	}
}
