package patterns

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const guardrailRows = GuardrailColumns + `
# at noon
2026-01-05T12:00:00Z,7,p95_wait,5,,3,2026-01-05T11:00:00Z,
2026-01-05T13:00:00Z,7,p95_wait,2.5,1,3,,1
`

func TestReadGuardrails(t *testing.T) {
	var got []string
	if err := ReadGuardrails(strings.NewReader(guardrailRows), func(g *Guardrail) error {
		got = append(got, fmt.Sprint(g.Time.Hours(), g.Revision, g.Name, g.Value, g.Low, g.High, g.Applied,
			g.DemandOutside))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	want := []string{
		fmt.Sprint(float64(noon.Unix())/3600, "7", "p95_wait", 5., "-Inf", 3.,
			time.Duration(noon.Add(-time.Hour).UnixNano()), false),
		fmt.Sprint(float64(noon.Unix())/3600+1, "7", "p95_wait", 2.5, 1., 3., time.Duration(0), true)}
	for i := range want {
		if strings.ReplaceAll(want[i], " ", "") != strings.ReplaceAll(got[i], " ", "") {
			t.Errorf("%s, want %s", got[i], want[i])
		}
	}
	row := func(edit, by string) string { return strings.Replace(guardrailRows, edit, by, 1) }
	for text, want := range map[string]string{
		"time,value\n":                       "the header lacks revision; want time,revision",
		row("high", "high,colour"):           `the header has "colour", unknown or twice`,
		row("2026-01-05T13", "yesterday"):    `line 4: time: "yesterday:00:00Z" is not an RFC 3339 time`,
		row("2.5", "NaN"):                    `line 4: value: "NaN" is not a number`,
		row("2.5", ""):                       "line 4: value: is empty",
		row("2.5,1,3", "2.5,4,3"):            "line 4: low: 4 is above high, 3",
		row("3,,1", "3,,yes"):                `line 4: demand_outside: "yes" is neither 0 nor 1`,
		row("3,,1", "3,1"):                   "wrong number of fields",
		row("2026-01-05T11:00:00Z", "later"): `line 3: applied: "later" is not`,
	} {
		err := ReadGuardrails(strings.NewReader(text), func(*Guardrail) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// FuzzReadGuardrails: no text makes the reader, or a scanner of its measurements, fail otherwise than by an error.
func FuzzReadGuardrails(f *testing.F) {
	f.Add(guardrailRows)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := New(Options{Zero: time.Unix(0, 0)})
		if err != nil {
			t.Fatal(err)
		}
		_ = ReadGuardrails(strings.NewReader(text), func(g *Guardrail) error {
			r := Record{Guardrail: g}
			at, err := s.Check(r)
			if err == nil {
				err = s.Apply(at, r)
			}
			return err
		})
		_ = s.Close()
	})
}
