package causal

import (
	"strings"
	"testing"
)

func TestReadSpecErrors(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"no JSON", "tiers", "line 1: invalid character"},
		{"second line", "{\n]", "line 2: invalid character"},
		{"unknown field", `{"teirs": {}}`, `unknown field "teirs"`},
		{"unknown tier", `{"tiers": {"a": "knob"}}`, `tiers: "knob" of "a" is not one of`},
		{"unknown mode", `{"mode": "loose"}`, `mode: "loose"`},
		{"unknown type", `{"types": {"a": "real"}}`, `"real" is not a type`},
		{"trailing", `{} {}`, "text after the JSON value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := ReadSpec(strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestBindErrors(t *testing.T) {
	tiers := `"tiers": {"c": "config", "m": "metric", "n": "metric", "o": "objective"}`
	tests := []struct{ name, text, want string }{
		{"no such column", `{"tiers": {"x": "config"}}`, `tiers: the data have no column "x"; they have c, m, n, o`},
		{"no tier", `{"tiers": {"c": "config"}}`, `column "m" has no tier`},
		{"forbidden of none", `{"forbidden": [["c", "x"]]}`, `forbidden: the data have no column "x"`},
		{"order of none", `{"order": ["x"]}`, `order: the data have no column "x"`},
		{"own cause", `{"required": [["m", "m"]]}`, `"m" cannot be its own cause`},
		{"against tiers", `{` + tiers + `, "required": [["o", "m"]]}`, `"o" stands in a higher tier`},
		{"against exogeneity", `{` + tiers + `, "required": [["m", "c"]]}`, `nothing causes "c"`},
		{"against the mode", `{"mode": "strict3", ` + tiers + `, "required": [["m", "n"]]}`, "do not cause each other"},
		{"forbidden and required", `{"required": [["m", "n"]], "forbidden": [["m", "n"]]}`, "that pair is forbidden"},
		{"a required cycle", `{"required": [["m", "n"], ["n", "o"], ["o", "m"]]}`, "back to it"},
		{"forbidden by a way round", `{"required": [["m", "n"], ["n", "o"]], "forbidden": [["m", "o"]]}`,
			`lead from "m" to "o", but that pair is forbidden`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := ReadSpec(strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Bind([]string{"c", "m", "n", "o"}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestBind(t *testing.T) {
	names := []string{"load", "c", "m", "n", "o", "q"}
	tiers := map[string]string{"load": "context", "c": "config", "m": "metric", "n": "metric", "o": "objective",
		"q": "objective"}
	tests := []struct {
		mode Mode
		want string // row i, column j: x if i is forbidden to cause j
	}{
		{ModeNone, ".......... .......... .........."},
		{ModeTiers, ".x.... x..... xx.... xx.... xxxx.x xxxxx."},
		{ModeStrict3, ".x..xx x...xx xx.x.. xxx... xxxx.x xxxxx."},
	}
	for _, tt := range tests {
		k, err := (&Spec{Mode: tt.mode, Tiers: tiers}).Bind(names)
		if err != nil {
			t.Fatal(err)
		}
		r := k.rules(len(names))
		var b strings.Builder
		for i := range names {
			for j := range names {
				b.WriteByte(".x"[btoi(r.forbids(i, j))])
			}
		}
		want := strings.ReplaceAll(tt.want, " ", "")
		if tt.mode == ModeNone {
			want = strings.Repeat(".", 36)
		}
		if b.String() != want {
			t.Errorf("%s: got %s, want %s", tt.mode, b.String(), want)
		}
	}
}
