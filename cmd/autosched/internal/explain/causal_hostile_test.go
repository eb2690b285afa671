package explain

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/testshared"
)

// TestCausalHostileTables gives every command that learns from a table tables with too little to learn from.
func TestCausalHostileTables(t *testing.T) {
	t.Parallel()
	testshared.Full(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// table has rows of x, y and jct = 3 x + noise, with the additions of more.
	table := func(name string, rows int, header string, more func(i int, x float64) string) string {
		r := rng.Stream("hostile tables", 1)
		var b strings.Builder
		fmt.Fprintf(&b, "x,y,jct%s\n", header)
		for i := range rows {
			x := r.NormFloat64()
			fmt.Fprintf(&b, "%g,%g,%g%s\n", x, r.NormFloat64(), 10+3*x+.5*r.NormFloat64(), more(i, x))
		}
		return file(name, b.String())
	}
	known := `"x": "config", "y": "config", "jct": "objective"`
	tiers := func(name, more string) string { return file(name, `{"tiers": {`+known+more+`}}`) }
	plain, z := tiers("plain.json", ""), tiers("z.json", `, "z": "config"`)
	nothing := func(int, float64) string { return "" }
	wide, names := "", ""
	for i := range 47 {
		wide += fmt.Sprintf(",w%d", i)
		names += fmt.Sprintf(`, "w%d": "config"`, i)
	}
	noise := rng.Stream("hostile tables", 2)
	fifty := table("fifty.csv", 100, wide, func(int, float64) string {
		var b strings.Builder
		for range 47 {
			fmt.Fprintf(&b, ",%g", noise.NormFloat64())
		}
		return b.String()
	})
	good := table("good.csv", 60, "", nothing)
	bad := func(cell string) string {
		return table("bad"+cell+".csv", 30, ",z", func(i int, _ float64) string {
			if i == 4 {
				return "," + cell
			}
			return ",1.5"
		})
	}
	for name, tt := range map[string]struct {
		data, tiers string
		code        int
		want        string // on stderr of every command
	}{
		"nan":      {bad("NaN"), z, 1, `line 6, column "z": NaN is not a finite number`},
		"infinite": {bad("-Inf"), z, 1, `line 6, column "z": -Inf is not a finite number`},
		"gap":      {bad(""), z, 1, `line 6, column "z": the value is missing`},
		"mixed":    {bad("many"), z, 1, `line 6, column "z": "many" is not a number`},
		"constant": {table("flat.csv", 60, ",z", func(int, float64) string {
			return ",7"
		}), z, 0, `column "z" is constant`},
		"one level": {table("level.csv", 60, ",z", func(int, float64) string {
			return ",blue"
		}), z, 0, `column "z" is constant`},
		"collinear": {table("twin.csv", 60, ",z", func(_ int, x float64) string {
			return fmt.Sprintf(",%g", 5-2*x)
		}), z, 0, `"x" and "z" carry the same information`},
		"a level per row": {table("ids.csv", 60, ",z", func(i int, _ float64) string {
			return fmt.Sprintf(",job%d", i)
		}), z, 1, `column "z" has 60 categories in 60 rows`},
		"fifty columns": {fifty, tiers("fifty.json", names), 0, ""},
		"few rows":      {table("few.csv", 12, "", nothing), plain, 1, "12 rows are too few"},
		"header only":   {file("header.csv", "x,y,jct\n"), plain, 1, "a header but no rows"},
		"empty":         {file("empty.csv", ""), plain, 1, "empty.csv"},
		"same name":     {file("twice.csv", "x,x,jct\n1,2,3\n"), plain, 1, `"x"`},
		"ragged":        {file("ragged.csv", "x,y,jct\n1,2\n"), plain, 1, "line 2"},
		"no tier": {table("new.csv", 60, ",z", func(i int, _ float64) string {
			return fmt.Sprintf(",%d", i%7)
		}), plain, 1, `column "z" has no tier`},
		"contradiction": {good, file("loop.json", `{"tiers": {`+known+`}, "required": [["jct", "x"]]}`), 1,
			"contradicts itself"},
		"both ways": {good, file("both.json",
			`{"tiers": {`+known+`}, "required": [["x", "jct"]], "forbidden": [["x", "jct"]]}`), 1,
			"contradicts itself"},
		"unknown tier": {good, file("tier.json", `{"tiers": {"x": "knob", "y": "config", "jct": "objective"}}`), 1,
			`"knob"`},
		"unknown column":    {good, tiers("ghost.json", `, "ghost": "metric"`), 1, `"ghost"`},
		"not JSON":          {good, file("broken.json", `{"tiers": {`), 1, "broken.json"},
		"tiers of no table": {file("binary.csv", "\x00\xff\x00\xff"), plain, 1, "binary.csv"},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && tt.data == fifty {
				t.Skip("seconds")
			}
			for _, args := range [][]string{{"learn"}, {"effects", "--boosted=false"}, {"whatif", "--set", "x=1",
				"--boosted=false"}} {
				code, out, errs := clitest.Run(append([]string{"explain", args[0], "--data", tt.data, "--tiers",
					tt.tiers},
					args[1:]...)...)
				if code != tt.code || !strings.Contains(errs+out, tt.want) {
					t.Errorf("%s: exit %d, want %d with %q: %.300s%.300s", args[0], code, tt.code, tt.want, errs, out)
				}
			}
		})
	}
}
