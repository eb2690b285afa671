package round

import (
	"fmt"

	"github.com/autosched/autosched/search"
)

// place says of a trial that it is adopted or in force, "" of others.
func (r *Round) place(out *Result, t *search.Trial) string {
	switch {
	case out.Adopt && t.Config.Equal(out.Config):
		return "adopted"
	case out.Adopt && out.Found.OK() && t.Config.Equal(out.Found.Config):
		return "adopted in its simplest form"
	case t.Config.Equal(r.Incumbent):
		return "in force"
	}
	return ""
}

// outcomes says of each trial what the adoption rule made of it. refused are the reasons against
// those that were looked at, by key, best first as in found; after the adopted one there are none.
func (w *weigher) outcomes(out *Result, found []candidate, refused map[string]string) {
	pooled := map[string]*candidate{}
	for i := range found {
		pooled[w.key(found[i].Config)] = &found[i]
	}
	for i := range out.Candidates {
		t := &out.Trials[i]
		out.Candidates[i].Outcome = w.outcome(out, t, pooled[w.key(t.Config)], refused)
	}
}

// outcome is "" for a trial that looked no better than the incumbent by any measure.
func (w *weigher) outcome(out *Result, t *search.Trial, c *candidate, refused map[string]string) string {
	r, key := w.round, w.key(t.Config)
	text := r.place(out, t)
	switch {
	case text != "":
		return text
	case !t.OK():
		return "" // its error says why
	case r.refuses(t.Config):
		return "its values are parked"
	case !r.satisfies(t):
		return "may break a constraint" + tightest(t)
	case refused[key] != "":
		return refused[key]
	case c != nil && out.Adopt:
		return tooLittle(c, "the adopted one gains more")
	case search.Gain(*t, out.Incumbent).Ratio <= 1:
		return ""
	case !inPortfolio(t):
		return "found on the futures that it was measured on, and not among the best that were measured on others"
	}
	return "has the effect of another one"
}

// tooLittle says what a candidate gains by all evidence, and that more is asked.
func tooLittle(c *candidate, asked string) string {
	if c.gain <= 0 {
		return fmt.Sprintf("no better by all evidence: %+.2f %%", 100*saved(c.gain))
	}
	return fmt.Sprintf("gains %.2f %% by all evidence; %s", 100*saved(c.gain), asked)
}
