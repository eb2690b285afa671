package paper

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/stats"
)

// rule says whether tuning pays on a place.
type rule struct {
	text string
	says func(*place) bool
}

func pays(x *place) bool { return x.once >= worth }

// right counts the places that a rule is right on.
func (r *rule) right(all []place) (n int) {
	for i := range all {
		if r.says(&all[i]) == pays(&all[i]) {
			n++
		}
	}
	return n
}

// learners are the rules that were tried, the simplest first.
var learners = []struct {
	name  string
	learn func([]place) rule
}{
	{"one threshold of a feature", one},
	{"two thresholds of features, both kept", two},
	{"one threshold for each scheduler", func(all []place) rule { return bySchedulers(all, one) }},
	{"the scheduler alone", func(all []place) rule { return bySchedulers(all, usual) }},
	{"thresholds of load, knobs and wide, all kept", func(all []place) rule {
		return together(all, []string{"load", "knobs", "wide"})
	}},
}

// usual is the more frequent answer: the base rate.
func usual(all []place) rule {
	paid := 0
	for i := range all {
		if pays(&all[i]) {
			paid++
		}
	}
	yes := 2*paid >= len(all)
	return rule{map[bool]string{true: "yes", false: "no"}[yes], func(*place) bool { return yes }}
}

// thresholds are the rules that ask for a feature on one side of a value between two of the places'.
func thresholds(all []place) (out []rule) {
	for _, f := range featureList {
		out = append(out, thresholdsOf(f, all)...)
	}
	return out
}

func thresholdsOf(f feature, all []place) (out []rule) {
	values := make([]float64, len(all))
	for i := range all {
		values[i] = f.of(&all[i].Features)
	}
	slices.Sort(values)
	values = slices.Compact(values)
	for i := range len(values) - 1 {
		at := (values[i] + values[i+1]) / 2
		above := func(x *place) bool { return f.of(&x.Features) > at }
		out = append(out, rule{fmt.Sprintf("%s above %.3g", f.name, at), above},
			rule{fmt.Sprintf("%s at most %.3g", f.name, at), func(x *place) bool { return !above(x) }})
	}
	return out
}

// together is a threshold of each of some features, all kept, or of fewer, that is right most often, the first of
// equals.
func together(all []place, features []string) (best rule) {
	choices := make([][]rule, len(features))
	for k, name := range features {
		choices[k] = append([]rule{{says: func(*place) bool { return true }}}, thresholdsOf(featureOf(name), all)...)
	}
	most := -1
	var try func(picked []rule, kept []bool)
	try = func(picked []rule, kept []bool) {
		if len(picked) < len(features) {
			for _, r := range choices[len(picked)] {
				still := slices.Clone(kept)
				for i := range all {
					still[i] = still[i] && r.says(&all[i])
				}
				try(append(slices.Clip(picked), r), still)
			}
			return
		}
		n := 0
		for i := range all {
			if kept[i] == pays(&all[i]) {
				n++
			}
		}
		if n <= most {
			return
		}
		most = n
		var texts []string
		for _, r := range picked {
			if r.text != "" {
				texts = append(texts, r.text)
			}
		}
		best = rule{cmp.Or(strings.Join(texts, ", "), "yes"), func(x *place) bool {
			return !slices.ContainsFunc(picked, func(r rule) bool { return !r.says(x) })
		}}
	}
	try(nil, slices.Repeat([]bool{true}, len(all)))
	return best
}

// one is the threshold that is right most often, the first of equals.
func one(all []place) (best rule) {
	most := -1
	for _, r := range thresholds(all) {
		if n := r.right(all); n > most {
			most, best = n, r
		}
	}
	return best
}

// two is the pair of thresholds that is right most often, the first of equals.
func two(all []place) (best rule) {
	rules := thresholds(all)
	said := make([][]bool, len(rules))
	for k, r := range rules {
		for i := range all {
			said[k] = append(said[k], r.says(&all[i]))
		}
	}
	truth := make([]bool, len(all))
	for i := range all {
		truth[i] = pays(&all[i])
	}
	most := -1
	for a := range rules {
		for b := a + 1; b < len(rules); b++ {
			n := 0
			for i, v := range said[a] {
				if (v && said[b][i]) == truth[i] {
					n++
				}
			}
			if n > most {
				most = n
				best = rule{rules[a].text + ", " + rules[b].text, func(x *place) bool {
					return rules[a].says(x) && rules[b].says(x)
				}}
			}
		}
	}
	return best
}

// bySchedulers learns a rule for each scheduler.
func bySchedulers(all []place, learn func([]place) rule) rule {
	rules, texts := map[string]rule{}, []string{}
	for _, s := range schedulerNames {
		of := slices.DeleteFunc(slices.Clone(all), func(x place) bool { return x.scheduler != s })
		rules[s] = learn(of)
		texts = append(texts, s+" "+rules[s].text)
	}
	return rule{strings.Join(texts, ", "), func(x *place) bool { r := rules[x.scheduler]; return r.says(x) }}
}

// leaveOut learns on all traces but one and returns for each place whether the rule is right where its trace is left
// out.
func leaveOut(all []place, learn func([]place) rule) (right []bool) {
	rules := map[string]rule{}
	for i := range all {
		set := all[i].x.set
		r, ok := rules[set]
		if !ok {
			r = learn(slices.DeleteFunc(slices.Clone(all), func(x place) bool { return x.x.set == set }))
			rules[set] = r
		}
		right = append(right, r.says(&all[i]) == pays(&all[i]))
	}
	return right
}

// signTest is the two-sided p-value of as many wins and losses, or fewer of the rarer.
func signTest(wins, losses int) float64 {
	n, k, p := wins+losses, min(wins, losses), 0.
	choose := math.Pow(.5, float64(n))
	for i := range k + 1 {
		p += choose
		choose *= float64(n-i) / float64(i+1)
	}
	return min(1, 2*p)
}

// aheadSpan is the 95 % interval of how many percent points a rule is right more often than the base rate, by a
// bootstrap over windows, whose schedulers have the same jobs.
func aheadSpan(all []place, right, base []bool) (lo, hi float64) {
	sums, sizes := map[string]float64{}, map[string]float64{}
	var names []string
	for i := range all {
		name := all[i].x.name
		if sizes[name] == 0 {
			names = append(names, name)
		}
		sizes[name]++
		if right[i] {
			sums[name]++
		}
		if base[i] {
			sums[name]--
		}
	}
	draw, ahead := rng.Stream("paper rules", 1), make([]float64, 1000)
	for k := range ahead {
		sum, n := 0., 0.
		for range names {
			name := names[draw.IntN(len(names))]
			sum, n = sum+sums[name], n+sizes[name]
		}
		ahead[k] = 100 * sum / n
	}
	return stats.Interval(ahead, 1)
}

// rules writes the success of every rule on the traces left out.
func (p *page) rules(all []place) {
	var sets []string
	for i := range all {
		if !slices.Contains(sets, all[i].x.set) {
			sets = append(sets, all[i].x.set)
		}
	}
	if len(sets) < 3 {
		return
	}
	p.printf("\nA rule for one's own history: change once where its features say so. Each of %d rules is learnt on the "+
		"windows of all traces\nbut one, by how often it says rightly whether the daily rule's pick gains %.0f %%, and tested on "+
		"the one left out. The base rate\nis the more frequent answer of the others; \"ahead\" is by how many percent points a "+
		"rule is right more often, with its 95 %% interval\nover windows. P-values are of a sign test against the base rate, "+
		"adjusted by Holm. All rules that were tried are here;\nthe features of the last were chosen before it was tried.\n",
		len(learners), 100*worth)
	columns := append([]string{"right of"}, sets...)
	p.table(1, append(columns, "all, %", "ahead", "p", "learnt on all")...)
	base := leaveOut(all, usual)
	var ps []float64
	var rows [][]string
	ahead, unclear := []int{0}, true
	for _, l := range learners {
		right := leaveOut(all, l.learn)
		wins, losses := 0, 0
		for i := range all {
			if right[i] && !base[i] {
				wins++
			} else if base[i] && !right[i] {
				losses++
			}
		}
		ps, ahead = append(ps, signTest(wins, losses)), append(ahead, wins-losses)
		lo, hi := aheadSpan(all, right, base)
		unclear = unclear && lo <= 0
		rows = append(rows, append(rightBy(l.name, all, sets, right), fmt.Sprintf("%+.1f (%+.1f to %+.1f)",
			100*float64(wins-losses)/float64(len(all)), lo, hi), "", l.learn(all).text))
	}
	p.row(append(rightBy("base rate", all, sets, base), "", "", usual(all).text)...)
	best := 0
	for k, adjusted := range stats.Holm(ps) {
		row := rows[k]
		row[len(row)-2] = chance(adjusted)
		p.row(row...)
		if adjusted < .05 && ahead[k+1] > ahead[best] {
			best = k + 1
		}
	}
	verdict := "No rule is better than the base rate by more than chance: on these traces such features do not decide it."
	if unclear {
		verdict = "No rule is better than the base rate by more than chance, and every interval has 0: there is no rule to " +
			"give. On these\ntraces such features do not decide whether tuning pays."
	}
	if best > 0 {
		verdict = "The best is: " + learners[best-1].name + "."
	}
	p.printf("\n%s\nThe daily rule replays the history instead of describing it: `autosched evaluate`.\n", verdict)
}

// rightBy is a row of the places that a rule is right on, by trace.
func rightBy(name string, all []place, sets []string, right []bool) []string {
	row, sum := []string{name}, 0
	for _, set := range sets {
		n, of := 0, 0
		for i := range all {
			if all[i].x.set == set {
				of++
				if right[i] {
					n++
				}
			}
		}
		row, sum = append(row, fmt.Sprintf("%d of %d", n, of)), sum+n
	}
	return append(row, percent(float64(sum)/float64(len(all))))
}
