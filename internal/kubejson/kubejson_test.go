package kubejson

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestRead(t *testing.T) {
	const text = `{"kind":"List","items":[{"kind":"Node","metadata":{"name":"a"},"n":2,"q":"1500m","l":[{"t":"x"}]}]}
{"kind":"Pod","metadata":{"name":"b","namespace":"c"},"at":"2026-01-01T00:00:00Z"}`
	all, err := Read("f.json", []byte(text))
	if err != nil || len(all) != 2 {
		t.Fatalf("%d objects, %v", len(all), err)
	}
	node, pod := all[0], all[1]
	if node.String() != "f.json: Node a" || pod.String() != "f.json: Pod c/b" {
		t.Errorf("%s, %s", node, pod)
	}
	at, ok := pod.Get("at").Time()
	if node.Get("n").Whole() != 2 || node.Get("q").Float() != 1.5 || node.Get("none", "of").Has() ||
		node.Get("l").Items()[0].Get("t").Text() != "x" || !ok || at != 1767225600*time.Second || node.Err() != nil {
		t.Errorf("%v, %v", node.Err(), at)
	}
	for want, read := range map[string]func(Value){
		"f.json: Node a: n: is not a text":               func(v Value) { v.Get("n").Text() },
		"f.json: Node a: l[0]: is not a list":            func(v Value) { v.Get("l").Items()[0].Items() },
		"f.json: Node a: l[0].t: is not an object":       func(v Value) { v.Get("l").Items()[0].Get("t", "u") },
		"f.json: Node a: q: 1500m is not a whole number": func(v Value) { v.Get("q").Whole() },
		"f.json: Node a: l[0].t: x is not a quantity":    func(v Value) { v.Get("l").Items()[0].Get("t").Float() },
		"f.json: Node a: kind: \"Node\" is not a time":   func(v Value) { v.Get("kind").Time() },
	} {
		all, _ := Read("f.json", []byte(text))
		read(all[0].Get())
		if err := all[0].Err(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for text, want := range map[string]string{"{": "f: is not JSON", "[]": "f: is not an object",
		`{"items":[{}]}`: "f: item 0 is not an object"} {
		if _, err := Read("f", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestFirstError: of two wrong fields the same one is named each time.
func TestFirstError(t *testing.T) {
	for range 50 {
		o := Of(map[string]any{"a/gpu": "x", "b/gpu": "y"})
		ListGPUs(o.Get())
		if err := o.Err(); err == nil || !strings.Contains(err.Error(), "a/gpu") {
			t.Fatal(err)
		}
	}
}

func TestQuantity(t *testing.T) {
	for text, want := range map[string]float64{`8`: 8, `"8"`: 8, `"1k"`: 1000, `"2Ki"`: 2048, `"500m"`: .5, `1e3`: 1000,
		`"1.5Gi"`: 1.5 * (1 << 30), `-3`: -3} {
		var o map[string]any
		if err := json.Unmarshal([]byte(`{"q":`+text+`}`), &o); err != nil {
			t.Fatal(err)
		}
		of := Of(o)
		if got := of.Get("q").Float(); got != want || of.Err() != nil {
			t.Errorf("%s: %g, %v", text, got, of.Err())
		}
	}
	for _, bad := range []any{"", "x", "1x", "1kk", "1e99999999", "1/2", "0x10", "1p3", "1P-9999999", true, []any{}} {
		if of := Of(map[string]any{"q": bad}); of.Get("q").Float() != 0 || of.Err() == nil {
			t.Errorf("%v is a quantity", bad)
		}
	}
}
