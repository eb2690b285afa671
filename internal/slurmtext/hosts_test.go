package slurmtext_test

import (
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/slurmtext"
)

func TestHostList(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"gpu1":                     "gpu1",
		"gpu[001-003,7],login1":    "gpu001 gpu002 gpu003 gpu7 login1",
		"a[9-11]":                  "a9 a10 a11",
		"r[1-2]n[01,03]x":          "r1n01x r1n03x r2n01x r2n03x",
		"b,a":                      "b a",
		"10.0.0.[1-2],host-a[2]-b": "10.0.0.1 10.0.0.2 host-a2-b",
	} {
		got, err := slurmtext.HostList(text)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"a[1-":                       "brackets",
		"a1]":                        "brackets",
		"a[[1]]":                     "brackets",
		"a[]":                        "not a number",
		"a[x]":                       "not a number",
		"a[3-1]":                     "not a number",
		"a[-1]":                      "not a number",
		"a,,b":                       "a name is missing",
		"a,":                         "a name is missing",
		"a[0-999999]":                "more than 20000",
		"a[0-9999]b[0-9999]c[0-999]": "more than 20000",
	} {
		if got, err := slurmtext.HostList(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d names, %v; want %q", text, len(got), err, want)
		}
	}
}

func FuzzHostList(f *testing.F) {
	f.Add("gpu[001-003,7],login1")
	f.Add("r[1-2]n[01,03]x")
	f.Fuzz(func(t *testing.T, text string) {
		names, err := slurmtext.HostList(text)
		if (err == nil) != (len(names) > 0 || text == "") {
			t.Errorf("%q: %d names, %v", text, len(names), err)
		}
	})
}
