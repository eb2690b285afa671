package paper

import (
	"fmt"
	"math"
	"slices"
	"strings"

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
	}
	return out
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
		"the one left out. The base rate\nis the more frequent answer of the others. P-values are of a sign test against it, "+
		"adjusted by Holm.\n", len(learners), 100*worth)
	columns := append([]string{"right of"}, sets...)
	p.table(1, append(columns, "all, %", "p", "learnt on all")...)
	base := leaveOut(all, usual)
	var ps []float64
	var rows [][]string
	ahead := []int{0}
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
		r := l.learn(all)
		rows = append(rows, append(rightBy(l.name, all, sets, right), "", r.text))
	}
	p.row(append(rightBy("base rate", all, sets, base), "", usual(all).text)...)
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
