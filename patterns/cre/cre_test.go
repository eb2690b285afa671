package cre

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/patterns"
)

const enumerations = `rules:
  - metadata: {id: a, kind: rules}
    cre:
      id: EX-1
      severity: 1
      title: A queue is full
      mitigation: |
        Restart it.
        Then look.
      tags: [queue]
    rule:
      sequence:
        window: 10s
        event: {source: log.queue}
        correlations: [hostname]
        order:
          - regex: full(.+)now
          - {value: refused, count: 2}
        negate:
          - SIGTERM
          - {value: planned, window: 5s, slide: -2s, anchor: 1, absolute: true}
  - cre: {id: EX-2}
    rule:
      set:
        event: {source: log.queue}
        match: [{jq: .a == 1}]
  - cre: {id: EX-3}
    rule:
      sequence:
        window: 1m
        order: [inner, other]
terms:
  inner: {set: {match: [x]}}
`

func TestRead(t *testing.T) {
	set, lost, err := Read(strings.NewReader(enumerations), "cre.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := `version: 1
rules:
  - id: EX-1
    title: A queue is full
    group_by: [node]
    sequence:
      window: 10s
      source: log.queue
      order:
        - event: message
          regex: full(.+)now
        - event: message
          value: refused
          count: 2
      negate:
        - event: message
          value: SIGTERM
        - event: message
          value: planned
          window: 5s
          slide: -2s
          anchor: 1
          absolute: true
    quiet: 5m
    action: mitigate
    words: Restart it. Then look.
`
	var got bytes.Buffer
	if err := set.Write(&got); err != nil {
		t.Fatal(err)
	}
	if got.String() != want {
		t.Errorf("read\n%s\nwant\n%s", got.String(), want)
	}
	if text := strings.Join(lost, "\n"); text != "EX-1: not kept: tags, metadata\n"+
		"rule 2 (EX-2) is left out: term 1: jq: matches no line of a log\n"+
		"rule 3 (EX-3) is left out: term 1: inner: matches nested in others are not supported" {
		t.Errorf("lost:\n%s", text)
	}

	// The rule matches the lines that it describes.
	var found []string
	s, err := patterns.New(patterns.Options{Rules: set, OnFinding: func(f *patterns.Finding) {
		found = append(found, f.Rule+" "+f.Entity.String())
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{"full and now", "refused", "refused"} {
		at := time.Hour + time.Duration(i)*time.Second
		if err := s.Apply(at, patterns.Record{Message: &patterns.Message{Time: at, Node: "n1", Source: "log.queue",
			Text: text}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Advance(time.Hour + time.Minute); err != nil { // a negative term may come for 3 s
		t.Fatal(err)
	}
	if len(found) != 1 || found[0] != "EX-1 node/n1" {
		t.Errorf("found %q", found)
	}
}

func TestWrite(t *testing.T) {
	set := patterns.Builtin()
	var out bytes.Buffer
	lost, err := Write(&out, set)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"schema 0.1.1", "id: crash_loop", "window: 1h0m0s", "count: 3",
		`jq: .kind == "FINISHED" and (.job.endStatus == "FAILED" or .job.endStatus == "OUT_OF_MEMORY")`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s lacks %q", out.String(), want)
		}
	}
	text := strings.Join(lost, "\n")
	for _, want := range []string{"hoarding is left out: derive", "straggler is left out: detect",
		"crash_loop: not kept: group_by user, group_by key, ran_below, until and quiet, waste"} {
		if !strings.Contains(text, want) {
			t.Errorf("lost %q lacks %q", text, want)
		}
	}
	// A rule on lines of logs comes back as it was.
	read, _, err := Read(strings.NewReader(enumerations), "cre.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if _, err := Write(&out, read); err != nil {
		t.Fatal(err)
	}
	again, _, err := Read(&out, "again")
	if err != nil {
		t.Fatal(err)
	}
	var a, b bytes.Buffer
	if err := read.Write(&a); err != nil {
		t.Fatal(err)
	}
	if err := again.Write(&b); err != nil {
		t.Fatal(err)
	}
	if a.String() != b.String() {
		t.Errorf("written and read again:\n%s\nwas\n%s", b.String(), a.String())
	}
}

func FuzzRead(f *testing.F) {
	f.Add(enumerations)
	f.Fuzz(func(t *testing.T, text string) {
		set, _, err := Read(strings.NewReader(text), "fuzz")
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := set.Write(&b); err != nil {
			t.Fatal(err)
		}
		if _, err := patterns.ReadRules(&b, "again"); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
