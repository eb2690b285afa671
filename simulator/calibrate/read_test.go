package calibrate

import (
	"strings"
	"testing"
	"time"
)

// FuzzReadCSV: runs that are read have GPUs and times that do not run backwards.
func FuzzReadCSV(f *testing.F) {
	f.Add("key,model,gpus,held_s,preemptions,strayed,end_s\nk,resnet,8,100,1,true,400\n")
	f.Add("job_id,model,gpus,nodes,seconds,steps\n1,resnet,8,1,100,1000\n")
	f.Fuzz(func(t *testing.T, text string) {
		runs, err := ReadCSV(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, r := range runs {
			if r.GPUs < 1 || r.Stops < 0 || r.Held < 0 {
				t.Fatalf("%q: %+v", text, r)
			}
		}
	})
}

func TestReadCSV(t *testing.T) {
	runs, err := ReadCSV(strings.NewReader("strayed,gpus,key,model,preemptions,held_s,tenant\ntrue,8,k,m,2,1.5,x\n"))
	want := Run{Key: "k", Model: "m", GPUs: 8, Stops: 2, Spread: true, Held: 1500 * time.Millisecond}
	if err != nil || len(runs) != 1 || runs[0] != want {
		t.Errorf("%+v, %v, want %+v", runs, err, want)
	}
	for text, want := range map[string]string{
		"":            "header",
		"key,model\n": "column gpus is missing",
		"key,model,gpus,held_s,preemptions,strayed\nk,m,0,1,0,false\n":   "line 2: gpus",
		"key,model,gpus,held_s,preemptions,strayed\nk,m,1,1,-1,false\n":  "line 2: preemptions",
		"key,model,gpus,held_s,preemptions,strayed\nk,m,1,1,0,perhaps\n": "line 2: strayed",
		"key,model,gpus,held_s,preemptions,strayed\nk,m,1,NaN,0,false\n": "line 2: held_s",
	} {
		if _, err := ReadCSV(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
