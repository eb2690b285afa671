package forecast

import (
	"strings"
	"testing"
)

func TestForecastList(t *testing.T) {
	for text, want := range map[string]string{
		"ridge,knn":                      "ridge|knn",
		"ridge knn":                      "ridge|knn",
		"paper:manhattan,original,ridge": "paper:manhattan,original|ridge",
		"paper:original paper:periodic":  "paper:original|paper:periodic",
		"nonsense,ridge":                 "nonsense|ridge",
		" , ":                            "",
	} {
		if got := strings.Join(forecastList(text), "|"); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
