package causal

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/autosched/autosched/internal/testshared"
)

// goldenTests are the tests of reference runs, by the reference's names.
var goldenTests = map[string]func(t *Table, bins int) (Independence, error){
	"bfx2":    basisTest(basisOptions{degree: 2, products: true}),
	"bf3":     basisTest(basisOptions{degree: 3, rank: true}),
	"dgrank":  basisTest(basisOptions{degree: 1, rank: true}),
	"dg":      basisTest(basisOptions{degree: 1, linear: true}),
	"fisherz": func(t *Table, _ int) (Independence, error) { return newFisherZ(t) },
	"gsq":     func(t *Table, bins int) (Independence, error) { return newContingency(t, false, bins) },
	"chisq":   func(t *Table, bins int) (Independence, error) { return newContingency(t, true, bins) },
}

func basisTest(o basisOptions) func(*Table, int) (Independence, error) {
	return func(t *Table, _ int) (Independence, error) {
		b, _, err := newBasis(t, o)
		return b, err
	}
}

// goldenTest returns the test of a reference run.
func goldenTest(t testing.TB, name string, table *Table, bins int) Independence {
	t.Helper()
	if bins == 0 {
		bins = 4
	}
	test, err := goldenTests[strings.TrimSuffix(name, "_q4")](table, bins)
	if err != nil {
		t.Fatal(err)
	}
	return test
}

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", filepath.Base(path), err)
	}
}

// goldenFiles returns the reference files of a kind, by name.
func goldenFiles(t testing.TB, kind string) []string {
	t.Helper()
	dir := testshared.Path(t, "golden", "causal", kind)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no file in golden/causal/%s", kind)
	}
	return files
}

type goldenTruth struct {
	Variables []string
	Types     map[string]Kind
	Tiers     map[string]string
	Parents   map[string][]string `json:"true_parents"`
	Latents   []string
	PAG       [][]int `json:"true_pag"`
	TieredPAG [][]int `json:"true_pag_with_tiers"`
}

// goldenData reads a data set with its true graph.
func goldenData(t testing.TB, name string) (*Table, *goldenTruth) {
	t.Helper()
	truth := &goldenTruth{}
	readJSON(t, testshared.Path(t, "golden", "causal", "truth", name+".json"), truth)
	table, err := ReadCSV(testshared.Open(t, "golden", "causal", "data", name+".csv.gz"), truth.Types)
	if err != nil {
		t.Fatal(err)
	}
	return table, truth
}

func TestGolden(t *testing.T) {
	t.Run("ci", testGoldenCI)
	t.Run("oracle", testGoldenOracle)
	t.Run("reuse", testGoldenReuse)
	if testing.Short() {
		return
	}
	t.Run("ref", testGoldenRef)
	t.Run("order", testGoldenOrder)
}

// testGoldenOrder permutes the columns of the data sets. The edges must not change.
func testGoldenOrder(t *testing.T) {
	for _, path := range goldenFiles(t, "truth") {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		t.Run(name, func(t *testing.T) {
			table, truth := goldenData(t, name)
			n := table.Len()
			learn := func(columns []int) *Graph {
				t.Helper()
				shuffled := table.Columns(columns)
				know, err := (&Spec{Tiers: truth.Tiers}).Bind(shuffled.Names())
				if err != nil {
					t.Fatal(err)
				}
				test, _, err := NewTest(shuffled)
				if err != nil {
					t.Fatal(err)
				}
				r, err := Discover(context.Background(), n, know, test, SearchOptions{MaxCond: 4, PDSMax: 2})
				if err != nil {
					t.Fatal(err)
				}
				return r.Graph
			}
			first := learn(upTo(n))
			for turn := range 3 {
				as := make([]int, n)
				for i := range as {
					as[i] = (n - 1 - i + 3*turn) % n
				}
				other := learn(as)
				for i := range n {
					for j := range n {
						if x, y := first.At(as[i], as[j]), other.At(i, j); (x == None) != (y == None) {
							t.Errorf("turn %d: the mark between %s and %s is %v, was %v", turn, truth.Variables[as[i]],
								truth.Variables[as[j]], y, x)
						}
					}
				}
			}
		})
	}
}

func testGoldenOracle(t *testing.T) {
	for _, path := range goldenFiles(t, "oracle") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			var cases []struct {
				Kind            string
				N, Latents      int
				Parents         [][]int
				PAG             [][]int
				Plain           [][]int `json:"pag_plain"`
				Tiered          [][]int `json:"pag_tiered_ref"`
				Tier            []int
				WithinForbidden []int `json:"within_forbidden"`
				Exogenous       []int
			}
			readJSON(t, path, &cases)
			graphs := 0
			check := func(k int, c [][]int, n int, know *Knowledge, oracle *Oracle) {
				if c == nil {
					return
				}
				graphs++
				got, err := Discover(context.Background(), n, know, oracle, SearchOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if want := goldenGraph(t, c); !got.Graph.Equal(want) {
					t.Errorf("case %d: got\n%swant\n%s", k, got.Graph.Format(numbers(n)), want.Format(numbers(n)))
				}
			}
			for k, c := range cases {
				oracle, err := NewOracle(c.Parents)
				if err != nil {
					t.Fatal(err)
				}
				check(k, c.PAG, c.N, nil, oracle)
				check(k, c.Plain, c.N, nil, oracle)
				if c.Tiered != nil {
					know := &Knowledge{Tier: c.Tier, WithinForbidden: map[int]bool{}, Exogenous: make([]bool, c.N)}
					for _, tier := range c.WithinForbidden {
						know.WithinForbidden[tier] = true
					}
					for _, v := range c.Exogenous {
						know.Exogenous[v] = true
					}
					check(k, c.Tiered, c.N, know, oracle)
				}
			}
			if graphs == 0 {
				t.Error("no graph in the file")
			}
			t.Logf("%d graphs of %d cases", graphs, len(cases))
		})
	}
}

// numbers names the variables by number.
func numbers(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}

// testGoldenReuse compares with published graphs, which stop at R4, and with
// the full set of rules.
func testGoldenReuse(t *testing.T) {
	for _, path := range goldenFiles(t, "reuse") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			var cases []struct {
				Source            string
				Observed, Latents []string
				Parents           [][]int
				Published         [][]int `json:"pag_published"`
				Reference         [][]int `json:"pag_reference"`
			}
			readJSON(t, path, &cases)
			for _, c := range cases {
				oracle, err := NewOracle(c.Parents)
				if err != nil {
					t.Fatal(err)
				}
				for _, arrowsOnly := range []bool{true, false} {
					got, err := Discover(context.Background(), len(c.Observed), nil, oracle,
						SearchOptions{arrowsOnly: arrowsOnly})
					if err != nil {
						t.Fatal(err)
					}
					want := goldenGraph(t, c.Reference)
					if arrowsOnly {
						want = goldenGraph(t, c.Published)
					}
					if !got.Graph.Equal(want) {
						t.Errorf("%s, arrows only %v: got\n%swant\n%s",
							c.Source, arrowsOnly, got.Graph.Format(c.Observed), want.Format(c.Observed))
					}
				}
			}
		})
	}
}

// goldenRef is a run of the reference implementation.
type goldenRef struct {
	Dataset, Test, Knowledge string
	Alpha                    float64
	Disc                     int
	MaxCond                  int `json:"max_cond"`
	PDSMax                   int `json:"pds_max"`
	CICalls                  int `json:"ci_calls"`
	E                        [][]int
	Sepsets                  [][4]any
	Conflicts                [][2]int
}

func testGoldenRef(t *testing.T) {
	for _, path := range goldenFiles(t, "ref") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			var want goldenRef
			readJSON(t, path, &want)
			table, truth := goldenData(t, want.Dataset)
			know, err := (&Spec{Mode: Mode(want.Knowledge), Tiers: truth.Tiers}).Bind(table.Names())
			if err != nil {
				t.Fatal(err)
			}
			got, err := Discover(context.Background(), table.Len(), know, goldenTest(t, want.Test, table, want.Disc),
				SearchOptions{Alpha: want.Alpha, MaxCond: want.MaxCond, PDSMax: want.PDSMax})
			if err != nil {
				t.Fatal(err)
			}
			if e := goldenGraph(t, want.E); !got.Graph.Equal(e) {
				t.Errorf("got\n%swant\n%s", got.Graph.Format(table.Names()), e.Format(table.Names()))
			}
			var conflicts [][2]int
			separated := 0
			for i := range table.Len() {
				for j := i + 1; j < table.Len(); j++ {
					e := got.Evidence(i, j)
					if e.Conflict {
						conflicts = append(conflicts, [2]int{i, j})
					}
					if e.Separated {
						separated++
					}
				}
			}
			if diff := cmp.Diff(want.Conflicts, conflicts, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("conflicts: %s", diff)
			}
			if separated != len(want.Sepsets) {
				t.Errorf("%d separations, want %d", separated, len(want.Sepsets))
			}
			for _, s := range want.Sepsets {
				i, j := int(s[0].(float64)), int(s[1].(float64))
				set := []int{}
				for _, v := range s[2].([]any) {
					set = append(set, int(v.(float64)))
				}
				e := got.Evidence(i, j)
				if !slices.Equal(e.Set, set) || math.Abs(e.P-s[3].(float64)) > 1e-9 {
					t.Errorf("%d and %d are separated by %v (p %v), want %v (p %v)", i, j, e.Set, e.P, set, s[3])
				}
			}
			if got.Tests != want.CICalls {
				t.Errorf("%d tests, the reference did %d", got.Tests, want.CICalls)
			}
		})
	}
}

func testGoldenCI(t *testing.T) {
	for _, path := range goldenFiles(t, "ci") {
		file := filepath.Base(path)
		t.Run(file, func(t *testing.T) {
			var want struct {
				Dataset string
				Tests   map[string][]struct {
					I, J int
					S    []int
					P    float64
					Stat *float64
					DF   *int
					Z    *float64
				}
			}
			readJSON(t, path, &want)
			table, _ := goldenData(t, want.Dataset)
			for name, triples := range want.Tests {
				run := goldenTest(t, name, table, 0).Worker()
				for _, c := range triples {
					got := run(min(c.I, c.J), max(c.I, c.J), c.S)
					if d := math.Abs(got.P - c.P); d > 1e-9 || c.P > 1e-12 && d > 1e-6*c.P {
						t.Errorf("%s(%d, %d | %v): p %v, want %v", name, c.I, c.J, c.S, got.P, c.P)
					}
					if c.DF != nil && got.DF != *c.DF {
						t.Errorf("%s(%d, %d | %v): %d degrees of freedom, want %d", name, c.I, c.J, c.S, got.DF, *c.DF)
					}
					if c.Stat != nil && math.Abs(got.Stat-*c.Stat) > 1e-6*max(1, *c.Stat) {
						t.Errorf("%s(%d, %d | %v): statistic %v, want %v", name, c.I, c.J, c.S, got.Stat, *c.Stat)
					}
				}
				t.Logf("%s: %d p-values", strings.ToLower(name), len(triples))
			}
		})
	}
}

// goldenGraph reads a matrix of the reference data; nil if it is absent.
func goldenGraph(t testing.TB, e [][]int) *Graph {
	t.Helper()
	g := NewGraph(len(e))
	for i, row := range e {
		if len(row) != len(e) || row[i] != 0 {
			t.Fatalf("row %d of %d: %v", i, len(e), row)
		}
		for j := range i {
			g.Set(j, i, Mark(row[j]), Mark(e[j][i])) // it panics on half an edge
		}
	}
	return g
}
