package schedulers_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/space"
)

// TestNativeGolden: the file of each scheduler with its default configuration.
func TestNativeGolden(t *testing.T) {
	for _, s := range schedulers.All {
		text, err := s.Form().Render(native.ValuesOf(s.Space.Default()))
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		path := filepath.Join(s.Name, "testdata", "native.yaml")
		if s.Name == "slurm" || s.Name == "volcano" {
			path = filepath.Join(s.Name, "testdata", "native.conf")
		}
		if *update {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || string(text) != string(want) {
			t.Errorf("%s: %v, rendered\n%swant\n%s", s.Name, err, text, want)
		}
	}
}

// TestNativeRoundTrip: a rendered file reads back as its configuration, for
// every preset and for random ones, and is rendered to the same bytes.
func TestNativeRoundTrip(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	for _, s := range schedulers.All {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(1, 15))
			configs := []space.Config{s.Space.Default()}
			for _, p := range s.Presets {
				configs = append(configs, p.Config)
			}
			x := make([]float64, s.Space.Dims())
			for range n {
				for i := range x {
					x[i] = rng.Float64()
				}
				configs = append(configs, s.Space.Decode(x))
			}
			for _, c := range configs {
				text, err := s.Form().Render(native.ValuesOf(c))
				if err != nil {
					t.Fatalf("%s: %v", c, err)
				}
				values, err := s.Form().Parse(text)
				if err != nil {
					t.Fatalf("%s: %v\n%s", c, err, text)
				}
				got, err := native.Config(s.Space, values)
				if err != nil || !got.Equal(c) {
					t.Fatalf("%s is read as %s, %v\n%s", c, got, err, text)
				}
			}
		})
	}
}

// TestNativeFaults: a fault of a file is named, by line where there is one.
func TestNativeFaults(t *testing.T) {
	for _, c := range []struct{ scheduler, from, to, want string }{
		{"tiresias", "schedule: dlas-gpu", "schedule: fifo",
			`schedule: "fifo" is not one of dlas, dlas-gpu, dlas-gpu-gittins`},
		{"tiresias", "num_queue: 3", "num_queue: [1, x]", `line 4: num_queue: "x" is not a finite number`},
		{"tiresias", "num_queue: 3", "num_queue: .inf", "is not a finite number"},
		{"tiresias", "num_queue: 3", "num_queue: {}", "neither a number"},
		{"tiresias", "num_queue: 3", "num_queues: 3", "num_queues: is not one of the options schedule, num_queue"},
		{"tiresias", "num_queue: 3", "num_queue: 3\nnum_queue: 4", "line 5: num_queue is set twice"},
		{"tiresias", "num_queue: 3\n", "", "queues: is missing"},
		{"tiresias", "num_queue: 3", "num_queue: 30", "queues: 30 is not valid here (range) and would become 6"},
		{"tiresias", "num_queue: 3", "num_queue: 2", "queue_thresholds: "},
		{"themis", "schedule: themis", "schedule: gavel", "schedule: want themis"},
		{"themis", "schedule: themis\n", "", "schedule: want themis"},
		{"lucid", "colocate: 1", "colocate: 0", "share_limit contradicts another option"},
		{"lucid", "colocate: 1", "colocate: 2", "2 is neither 0 nor 1"},
		{"fifo", "backfill: false", "- backfill", `line 3: want "option: value" lines`},
		{"fifo", "backfill: false", "backfill: 7", "backfill: "},
		{"fifo", "backfill: false", "--- 1\n--- 2", "more than one YAML document"},
		{"fifo", "backfill: false", "", "is empty"},
	} {
		s, err := schedulers.Find(c.scheduler)
		if err != nil {
			t.Fatal(err)
		}
		text, err := s.Form().Render(native.ValuesOf(s.Space.Default()))
		if err != nil || !strings.Contains(string(text), c.from) {
			t.Fatalf("%v: no %q in\n%s", err, c.from, text)
		}
		values, err := s.Form().Parse([]byte(strings.Replace(string(text), c.from, c.to, 1)))
		if err == nil {
			_, err = native.Config(s.Space, values)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q: %v, want %s", c.scheduler, c.to, err, c.want)
		}
	}
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Form().Render(space.Values{"lease_term": space.Num(60)}); err == nil {
		t.Error("a parameter without an option was rendered")
	}
	if _, err := s.Form().Render(space.Values{"priority": space.Text("x")}); err == nil {
		t.Error("a category without a word was rendered")
	}
}
