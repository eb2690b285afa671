package paper

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/workload"
	tracestats "github.com/autosched/autosched/workload/stats"
)

// similarity is a measure of how unlike two segments of counts are: the smaller, the more alike.
type similarity struct {
	name string
	of   func(a, b []float64) float64
}

// similarities are those of the paper's table 5.
var similarities = []similarity{
	{"manhattan", func(a, b []float64) (sum float64) {
		for i := range a {
			sum += math.Abs(a[i] - b[i])
		}
		return sum
	}},
	{"euclidean", func(a, b []float64) (sum float64) {
		for i := range a {
			sum += (a[i] - b[i]) * (a[i] - b[i])
		}
		return sum
	}},
	{"cosine", func(a, b []float64) float64 { return -cosine(a, b, 0, 0) }},
	{"pearson", func(a, b []float64) float64 { return -cosine(a, b, stats.Mean(a), stats.Mean(b)) }},
}

func similarityOf(name string) *similarity {
	return &similarities[slices.IndexFunc(similarities, func(s similarity) bool { return s.name == name })]
}

// cosine of the angle between two vectors less their means, 0 if one is zero.
func cosine(a, b []float64, meanA, meanB float64) float64 {
	ab, aa, bb := 0., 0., 0.
	for i := range a {
		x, y := a[i]-meanA, b[i]-meanB
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}

const (
	perHour = 12 // counts of five minutes
	// similarDays is the history that places are looked for in, testDays the days whose hours are forecast.
	similarDays, testDays = 14, 7
)

// similarityUnits forecast the number of jobs of every hour of a trace's last days by copying the hour after the place
// in history that is most like the last hour. Their values are the sums of the errors over that of the jobs, by
// measure.
func similarityUnits() []Unit {
	return traceUnits("similarity", 3, .2, func(_ context.Context, w *workload.Workload) (any, error) {
		counts, _ := tracestats.Counts(w, 5*time.Minute)
		out := map[string]float64{}
		for _, m := range similarities {
			errs, jobs := 0., 0.
			for at := max(len(counts)-testDays*24*perHour, 2*perHour); at+perHour <= len(counts); at += perHour {
				last, best, least := counts[at-perHour:at], 0, math.Inf(1)
				for edge := max(perHour, at-similarDays*24*perHour); edge+perHour <= at; edge++ {
					if v := m.of(counts[edge-perHour:edge], last); v <= least { // the latest of equals
						best, least = edge, v
					}
				}
				truth := total(counts[at : at+perHour])
				errs, jobs = errs+math.Abs(total(counts[best:best+perHour])-truth), jobs+truth
			}
			out[m.name] = errs / jobs
		}
		return out, nil
	})
}

func total(v []float64) (sum float64) {
	for _, x := range v {
		sum += x
	}
	return sum
}

// likenessMethod is the published tuner by a measure.
func likenessMethod(m *similarity) string {
	if m.name == "manhattan" {
		return "published"
	}
	return "published-" + m.name
}

// likenessErrors is the error by cosine over that by the sum of absolute differences, by trace.
func (p *page) likenessErrors() string {
	var all []measured
	for _, name := range forecastTraces {
		if e := read[map[string]float64](&p.results, "similarity/"+name); e != nil {
			all = append(all, measured{name, (*e)["cosine"] / (*e)["manhattan"]})
		}
	}
	return texts(all)
}

func (p *page) likenessTable() {
	if !p.has("similarity/") {
		return
	}
	p.printf("\n### Measures of similarity (table 5)\n\nSum of the errors of the next hour's number of jobs over that of the " +
		"jobs, over a week, where the hour after the most\nsimilar one of two weeks is copied; and Tiresias's average JCT under " +
		"the published tuner, whose generator finds the places\nof history by this measure, over that by absolute " +
		"differences, with its 95 %% interval over seeds and jobs.\n")
	columns := []string{"trace", "number"}
	for _, m := range similarities {
		columns = append(columns, m.name)
	}
	p.table(2, columns...)
	for _, name := range forecastTraces {
		if e := read[map[string]float64](&p.results, "similarity/"+name); e != nil {
			row := []string{name, "error"}
			for _, m := range similarities {
				row = append(row, number("%.3f", (*e)[m.name]))
			}
			p.row(row...)
		}
	}
	for i := range windows {
		base := p.cell(windows[i].name, "tiresias", "published")
		row, any := []string{windows[i].name, "JCT"}, false
		for k := range similarities {
			c := p.cell(windows[i].name, "tiresias", likenessMethod(&similarities[k]))
			text := ""
			if len(c) > 0 && len(base) > 0 {
				text = number("%.3f", c.over(base))
				if k > 0 {
					any = true
					lo, hi := c.span(base)
					text += " (" + span(lo, hi) + ")"
				}
			}
			row = append(row, text)
		}
		if any {
			p.row(row...)
		}
	}
}
