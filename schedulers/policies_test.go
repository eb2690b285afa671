package schedulers_test

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/internal/tryout"
	"github.com/autosched/autosched/simulator"
)

var update = flag.Bool("update", false, "write what the policies do into their golden files")

// firstExample is the begin of a new golden file: more jobs than GPUs, of
// several widths and two tenants, all of them short but for the first.
const firstExample = `# NAME with its defaults, on two nodes of four GPUs: say here what the example
# shows, and change the jobs and settings until it does.
cluster 2 x 4
restarts
job a    0 9000 4 tenant=x
job b   60 3000 8 tenant=y
job c  120  600 1 tenant=x
job d  180 1200 2 tenant=y
job e  240  300 1 tenant=x
job f 4000  900 4 tenant=y
`

// TestPolicies: each scheduler acts as its golden file has it, event by event.
func TestPolicies(t *testing.T) {
	for _, s := range schedulers.All {
		t.Run(s.Name, func(t *testing.T) {
			file := filepath.Join(s.Name, "testdata", "golden.txt")
			_, err := os.Stat(file)
			switch {
			case errors.Is(err, fs.ErrNotExist) && *update:
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(strings.ReplaceAll(firstExample, "NAME", s.Name)),
					0o644); err != nil {
					t.Fatal(err)
				}
			case err != nil:
				t.Fatalf("%v; 'go test ./schedulers -run TestPolicies -update' writes one", err)
			}
			tryout.Check(t, file, s.Space, s.New, *update)
		})
	}
}

// TestClairvoyant: the schedulers that are given true durations are the ones that are
// marked.
func TestClairvoyant(t *testing.T) {
	for _, s := range schedulers.All {
		if _, clairvoyant := s.New(s.Space.Default()).(simulator.Clairvoyant); clairvoyant != s.Clairvoyant {
			t.Errorf("%s: marked %v, the policy asks for true durations: %v", s.Name, s.Clairvoyant, clairvoyant)
		}
	}
}
