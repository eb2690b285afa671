package paper

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/stats"
)

// gained sums up a method against the default over cases: windows with a scheduler each.
type gained struct {
	n int
	// change of the average JCT, geometric mean over cases, with the 95 % interval; below 0 jobs end earlier.
	change, lo, hi float64
	worst          float64
	losses         int // by more than 1 %
}

// gained returns false where no case is measured. The interval is by a bootstrap over windows and, within each, over
// seeds and stretches of the same jobs: the cases of a window have the same jobs.
func (r *results) gained(method string, of func(*window) bool) (g gained, ok bool) {
	type pair struct{ base, other cell }
	var all [][]pair
	sum := 0.
	for i := range windows {
		var here []pair
		for _, s := range schedulerNames {
			p := pair{r.cell(windows[i].name, s, "default"), r.cell(windows[i].name, s, method)}
			if !of(&windows[i]) || len(p.base) == 0 || len(p.other) == 0 {
				continue
			}
			here = append(here, p)
			v := p.other.over(p.base)
			sum += math.Log(v)
			if g.n++; v > 1.01 {
				g.losses++
			}
			if g.n == 1 || v-1 > g.worst {
				g.worst = v - 1
			}
		}
		if len(here) > 0 {
			all = append(all, here)
		}
	}
	if g.n == 0 {
		return g, false
	}
	g.change = math.Expm1(sum / float64(g.n))
	draw, changes := rng.Stream("paper summary", 1), make([]float64, 1000)
	for i := range changes {
		logs, n := 0., 0
		for range all {
			var jobs [stretches]int
			here, seed := all[draw.IntN(len(all))], draw.IntN(1<<20)
			for k := range jobs {
				jobs[k] = draw.IntN(stretches)
			}
			for _, p := range here {
				x, y := p.base[seed%len(p.base)], p.other[seed%len(p.other)]
				a, b := 0., 0.
				for _, k := range jobs {
					a, b = a+x.Stretches[k], b+y.Stretches[k]
				}
				logs, n = logs+math.Log(b/a), n+1
			}
		}
		changes[i] = math.Expm1(logs / float64(n))
	}
	g.lo, g.hi = stats.Interval(changes, 1)
	return g, true
}

// signed is a change in percent.
func signed(v float64) string {
	v = math.Round(1000*v) / 10
	if v == 0 {
		return "0.0 %"
	}
	return fmt.Sprintf("%+.1f %%", v)
}

func (g *gained) text() string {
	return signed(g.change) + " (" + signed(g.lo) + " to " + signed(g.hi) + ")"
}

// lost has the number of losses and the worst one.
func (g *gained) lost() string {
	text := fmt.Sprintf("%d of %d", g.losses, g.n)
	if g.losses > 0 {
		text += ", worst " + signed(g.worst)
	}
	return text
}

// summary is the table at the head of the page.
func (p *page) summary() {
	p.printf("\nAverage JCT against the scheduler's default, geometric means over windows with Tiresias, Themis and Lucid, in " +
		"brackets 95 %%:\nbelow 0 jobs end earlier. Lost: cases whose jobs take more than 1 %% longer.\n")
	p.table(1, "tuning", "windows with every method", "lost", "all windows", "lost")
	for _, m := range [][2]string{{"random-preset", "a preset drawn at random"},
		{"fixed-history", "once, the best of the days before"}, {"daily", "once, by the daily rule"},
		{"selftune", "every hour, SelfTune's method"}, {"published", "every hour, the paper's tuner"},
		{"autosched", "every hour, the service"}, {"fixed-oracle", "once, the best in hindsight"}} {
		every, ok := p.gained(m[0], ofAll)
		if !ok {
			continue
		}
		row := []string{m[1], every.text(), every.lost(), "", ""}
		if all, _ := p.gained(m[0], anyWindow); all.n > every.n {
			row[3], row[4] = all.text(), all.lost()
		}
		p.row(row...)
	}
}

// Begin and End are the lines around the part of a README that is written.
const (
	Begin = "<!-- written by autosched-lab paper --render -->"
	End   = "<!-- end -->"
)

// Readme returns a README with its part written anew from the results in a folder.
func Readme(folder string, text []byte) ([]byte, error) {
	before, rest, ok := bytes.Cut(text, []byte(Begin+"\n"))
	if !ok {
		return nil, fmt.Errorf("there is no line %s, which the table of results follows", Begin)
	}
	_, after, ok := bytes.Cut(rest, []byte(End+"\n"))
	if !ok {
		return nil, fmt.Errorf("there is no line %s after the table of results", End)
	}
	all, err := Read(folder)
	if err != nil {
		return nil, err
	}
	p := page{results: results{all: all}}
	p.expect()
	return slices.Concat(before, []byte(Begin), p.text.Bytes(), []byte(End+"\n"), after), p.err
}

func writeReadme(folder, path string) error {
	text, err := os.ReadFile(path)
	if err == nil {
		text, err = Readme(folder, text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, text, 0o666)
}

// expect is the README's table, by trace.
func (p *page) expect() {
	p.table(1, "history", "changed once", "lost", "tuned every hour", "lost", "best in hindsight")
	var sets []string
	for i := range windows {
		if _, ok := p.gained("daily", func(x *window) bool { return x == &windows[i] }); ok &&
			!slices.Contains(sets, windows[i].set) {
			sets = append(sets, windows[i].set)
		}
	}
	for _, set := range append(sets, "all") {
		row := []string{set}
		for _, m := range []string{"daily", "autosched", "fixed-oracle"} {
			g, ok := p.gained(m, func(x *window) bool { return set == "all" || x.set == set })
			switch {
			case !ok:
				row = append(row, "", "")
			case m == "fixed-oracle":
				row = append(row, signed(g.change))
			default:
				row = append(row, g.text(), g.lost())
			}
		}
		p.row(row[:6]...)
	}
}
