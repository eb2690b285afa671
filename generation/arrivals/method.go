package arrivals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/rng"
)

// Method is a way to forecast arrivals.
type Method struct {
	Name  string
	About string
	// new makes the source of draws for counts of perHour bins an hour and a
	// horizon in bins.
	new func(perHour, horizon int) source
}

// DefaultMethod is the one that back-tests prefer.
const DefaultMethod = "ensemble"

// Repeat is the method that needs no history but the last hour.
const Repeat = "repeat"

// Methods in order of sophistication.
var Methods = []Method{
	{Repeat, "the last hour again, or what there is of it", newRepeat},
	{"paper", "the place in history whose periodic part is most like the last hour's (AutoSched, ICS 2024)", newPaper},
	{"ridge", "ridge regression on lags, hour and weekday; places at which it forecast the same", levels(ridgeModel)},
	{"boosted", "boosted trees on the same features; places at which they forecast the same", levels(boostedModel)},
	{"ensemble", "ridge and boosted, weighted by their rolling back-test; places at which they forecast the same",
		levels(stackedModel)},
}

// source finds the places of history that futures are copied from.
type source interface {
	// learn takes in the history's whole days.
	learn(ctx context.Context, h *History) error
	// draws lists places for the history's end. None means that nothing is known.
	draws(h *History) ([]draw, error)
}

// Choice is a method. The zero value is DefaultMethod.
type Choice struct{ method *Method }

// Parse reads a name of Methods. An empty text is DefaultMethod.
func Parse(name string) (Choice, error) {
	name = cmp.Or(name, DefaultMethod)
	i := slices.IndexFunc(Methods, func(m Method) bool { return m.Name == name })
	if i < 0 {
		var names []string
		for _, m := range Methods {
			names = append(names, m.Name)
		}
		return Choice{}, fmt.Errorf("arrivals: method %q is not one of %s", name, strings.Join(names, ", "))
	}
	return Choice{&Methods[i]}, nil
}

// Method is the method chosen.
func (c Choice) Method() Method {
	if c.method == nil {
		c, _ = Parse(DefaultMethod)
	}
	return *c.method
}

// String is the text that Parse reads.
func (c Choice) String() string { return c.Method().Name }

// Options of a forecaster. The zero value is good.
type Options struct {
	Method Choice
	// Horizon is how far futures go, in whole bins; default an hour.
	Horizon time.Duration
}

// MaxHorizon is the longest horizon: copied places must fit into history.
const MaxHorizon = 7 * day

// Forecaster draws futures. It remembers its knowledge of a history's past
// days, so that forecasting hour after hour costs little; its answer depends
// on the history it is given alone. It is not safe for concurrent use.
type Forecaster struct {
	method  Method
	horizon time.Duration

	source   source
	composer composer
	days     int    // of the history that was learned
	print    uint64 // of those days
	learned  bool
}

// New makes a forecaster. An error names the option.
func New(o Options) (*Forecaster, error) {
	f := &Forecaster{method: o.Method.Method(), horizon: cmp.Or(o.Horizon, time.Hour)}
	if f.horizon <= 0 || f.horizon > MaxHorizon {
		return nil, fmt.Errorf("arrivals: horizon %v is not positive, or longer than %v", f.horizon, MaxHorizon)
	}
	return f, nil
}

// Method is the forecaster's method.
func (f *Forecaster) Method() Method { return f.method }

// Horizon is how far its futures go.
func (f *Forecaster) Horizon() time.Duration { return f.horizon }

// Learn takes in a history, which Sample would do otherwise. It costs the more
// the more days are new; a history that does not continue the one learned before
// is learned from its beginning.
func (f *Forecaster) Learn(ctx context.Context, h *History) error {
	if f.horizon%h.bin != 0 {
		return fmt.Errorf("arrivals: horizon %v is not a multiple of the bin %v", f.horizon, h.bin)
	}
	days := h.bins() / (24 * h.perHour())
	if !f.learned || days < f.days || h.print(f.days*24*h.perHour()) != f.print {
		horizon := int(f.horizon / h.bin)
		f.source, f.composer = f.method.new(h.perHour(), horizon), composer{horizon: horizon}
		f.days, f.learned = -1, false
	}
	if err := f.source.learn(ctx, h); err != nil {
		f.learned = false // it may have learned half a day
		return err
	}
	if days != f.days || !f.learned {
		f.composer.gather(h, h.start+time.Duration(days)*day)
		f.days, f.print, f.learned = days, h.print(days*24*h.perHour()), true
	}
	return nil
}

// golden is the step of the sequence that quantiles are taken at: its multiples,
// modulo one, are spread evenly however many there are.
var golden = (math.Sqrt(5) - 1) / 2

// Sample draws n futures from the history's end on. The first futures do not
// depend on how many are drawn. Their totals are spread evenly over the
// forecast's distribution, in no order, so that few stand for many.
func (f *Forecaster) Sample(ctx context.Context, h *History, n int, seed uint64) ([]Future, error) {
	if n < 1 {
		return nil, errors.New("arrivals: no future asked for")
	}
	if err := f.Learn(ctx, h); err != nil {
		return nil, err
	}
	draws, err := f.source.draws(h)
	if err != nil {
		return nil, err
	}
	futures := make([]Future, n)
	if len(draws) == 0 { // nothing is known: nothing comes
		for k := range futures {
			futures[k].Jobs, futures[k].Batches = make([]int, f.composer.horizon), make([]int, f.composer.horizon)
		}
		return futures, nil
	}
	if len(draws) > 1 {
		for i := range draws {
			if d := &draws[i]; !d.scaled {
				d.jobs = float64(h.arrived[d.edge+cmp.Or(d.span, f.composer.horizon)] - h.arrived[d.edge])
			}
		}
		slices.SortStableFunc(draws, func(a, b draw) int {
			return cmp.Or(cmp.Compare(a.jobs, b.jobs), cmp.Compare(a.edge, b.edge))
		})
	}
	upTo := make([]float64, len(draws))
	var sum float64
	for i := range draws {
		sum += draws[i].weight
		upTo[i] = sum
	}
	u := rng.Stream("arrivals", seed).Float64()
	for k := range futures {
		i, _ := slices.BinarySearch(upTo, u*sum)
		futures[k] = f.composer.compose(h, draws[min(i, len(draws)-1)],
			rng.Stream("arrivals of a future", seed, uint64(k)))
		u += golden
		u -= math.Floor(u)
	}
	return futures, nil
}
