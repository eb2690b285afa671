package slurm

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/schedulers/slurm/conf"
)

// fakeAccounting is a slurmdbd that answers from files: a QOS each.
type fakeAccounting struct {
	*testing.T
	dir string
}

func newFakeAccounting(t *testing.T) *fakeAccounting {
	f := &fakeAccounting{t, t.TempDir()}
	for _, dir := range []string{"bin", "qos"} {
		if err := os.Mkdir(filepath.Join(f.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f.write("clusters", "one\n")
	f.write("bin/scontrol", "#!/bin/sh\necho 'ClusterName = fake'\necho 'SlurmUser = nobody(9)'\n")
	// The file left has how many modifications succeed.
	f.write("bin/sacctmgr", `#!/bin/sh
cd "`+f.dir+`" || exit
case "$*" in
"-nP show qos format=Name,Priority") for q in qos/*; do echo "${q#qos/}|$(cat "$q")"; done ;;
"-nP show cluster format=Cluster") cat clusters ;;
"-i modify qos "*)
	left=$(cat left)
	[ "$left" -gt 0 ] || { echo "slurmdbd is away" >&2; exit 1; }
	echo $((left - 1)) >left
	[ -f "qos/$4" ] && echo "${6#Priority=}" >"qos/$4" ;;
esac
`)
	t.Setenv("PATH", filepath.Join(f.dir, "bin")+":"+os.Getenv("PATH"))
	return f
}

func (f *fakeAccounting) write(name, text string) {
	f.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o755); err != nil {
		f.Fatal(err)
	}
}

func (f *fakeAccounting) set(priorities map[string]int64, left int) {
	for name, v := range priorities {
		f.write("qos/"+name, fmt.Sprintln(v))
	}
	f.write("left", fmt.Sprintln(left))
}

func qosText(priorities map[string]int64) []byte {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(priorities)) {
		fmt.Fprintf(&b, "#QOS.%s.Priority=%d\n", name, priorities[name])
	}
	return []byte(b.String())
}

// TestQOSEndsInOneState: wherever setting priorities fails, and however often taking them back does, the ones of the
// file before are in force in the end; an admin's changes meanwhile stay, and are reported.
func TestQOSEndsInOneState(t *testing.T) {
	f := newFakeAccounting(t)
	cases := 30
	if testing.Short() {
		cases = 15
	}
	r := rand.New(rand.NewPCG(5, 11))
	names := []string{"a", "b", "c"}
	tuned := []string{"QOS.a.Priority", "QOS.b.Priority", "QOS.c.Priority"}
	whole, torn, foreign := 0, 0, 0
	for i := range cases {
		draw := func() map[string]int64 {
			return map[string]int64{"a": r.Int64N(3), "b": r.Int64N(3), "c": r.Int64N(3)}
		}
		before, after := draw(), draw()
		f.set(before, len(names))
		f.write("autosched.conf", "PriorityWeightAge=1\n#QOS.a.Priority=77\n")
		target := &Target{Options: Options{Include: filepath.Join(f.dir, "autosched.conf"), AllowQOS: OwnQOS}}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%d: %v", i, err)
			}
		}
		must(target.adoptQOS(t.Context(), tuned))
		adopted, err := os.ReadFile(target.Include)
		must(err)
		if want := string(qosText(before)) + "PriorityWeightAge=1\n"; string(adopted) != want {
			t.Fatalf("%d: adopted\n%s\nwant\n%s", i, adopted, want)
		}
		changes := 0
		for _, name := range names {
			if before[name] != after[name] {
				changes++
			}
		}
		left := r.IntN(len(names) + 1)
		f.write("left", fmt.Sprintln(left))
		f.write("new", string(qosText(after)))
		_, err = target.setQOS(t.Context(), filepath.Join(f.dir, "new"))
		if (err == nil) != (left >= changes) {
			t.Fatalf("%d: %d of %d changes: %v", i, left, changes, err)
		}
		want := maps.Clone(before)
		if err == nil {
			whole++
			must(target.drifted(t.Context(), qosText(after)))
		} else {
			torn++
		}
		admin := r.IntN(2) == 0
		if admin {
			foreign++
			want["b"] = 9
			f.write("qos/b", "9\n")
		}
		f.write("left", fmt.Sprintln(r.IntN(2)))
		_, _ = target.setQOS(t.Context(), target.Include) // it may fail, too
		f.write("left", fmt.Sprintln(len(names)))
		others, err := target.setQOS(t.Context(), target.Include)
		must(err)
		if (len(others) == 1) != admin {
			t.Errorf("%d: set by others is %v", i, others)
		}
		now, err := target.qos(t.Context())
		must(err)
		if !maps.Equal(now, want) {
			t.Fatalf("%d: from %v to %v with %d of %d changes: in force is %v, want %v", i, before, after, left,
				changes, now, want)
		}
		if err := target.drifted(t.Context(), adopted); errors.Is(err, errSetByOthers) != admin {
			t.Errorf("%d: %v is said of an admin's change: %v", i, err, admin)
		}
	}
	if whole < cases/5 || torn < cases/5 || foreign < cases/5 {
		t.Errorf("%d whole, %d torn, %d with an admin: little is shown", whole, torn, foreign)
	}
}

// TestQOSIsRefused: before anything is changed, and with the reason.
func TestQOSIsRefused(t *testing.T) {
	f := newFakeAccounting(t)
	f.set(map[string]int64{"a": 1, "b": 2}, 9)
	f.write("slurm.conf", "ClusterName=fake\n")
	f.write("autosched.conf", "PriorityWeightAge=1\n")
	o := Options{Conf: filepath.Join(f.dir, "slurm.conf"), Tuned: []string{"QOS.a.Priority"},
		Include: filepath.Join(f.dir, "autosched.conf")}
	if _, err := newTarget(o); err == nil || !strings.Contains(err.Error(), "--allow-qos") {
		t.Errorf("not opened: %v", err)
	}
	o.AllowQOS = OwnQOS
	target, err := newTarget(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := target.knowsQOS(o.Tuned); err == nil || !strings.Contains(err.Error(), "--take-over") {
		t.Errorf("not adopted: %v", err)
	}
	if err := target.adoptQOS(t.Context(), []string{"QOS.gone.Priority"}); err == nil {
		t.Error("a QOS that is not there is tuned")
	}
	if err := target.adoptQOS(t.Context(), o.Tuned); err != nil || target.knowsQOS(o.Tuned) != nil {
		t.Fatal(err)
	}
	may := func(text string) (map[string]int64, error) {
		return target.mayQOS(t.Context(), &conf.Config{}, []byte(text))
	}
	for text, want := range map[string]string{"#QOS.x.Priority=1\n": "no QOS x", "#QOS.a.Priority=-1\n": "from 0"} {
		if _, err := may(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	f.write("clusters", "one\ntwo\n")
	text := string(qosText(map[string]int64{"a": 5, "b": 2}))
	if _, err := may(text); err == nil || !strings.Contains(err.Error(), "2 clusters share") {
		t.Errorf("shared: %v", err)
	}
	target.AllowQOS = SharedQOS
	if os.Geteuid() == 0 {
		changes, err := may(text)
		if err != nil || len(changes) != 1 || changes["a"] != 5 {
			t.Errorf("%v %v", changes, err)
		}
	} else if _, err := may(text); err == nil || !strings.Contains(err.Error(), "may not set QOS") {
		t.Errorf("without the right: %v", err)
	}
	e := &examination{o: o}
	f.write("autosched.conf", "#QOS.a.Priority=4\n#QOS.b.Priority=2\n")
	e.qosState(t.Context())
	if len(e.Checks) != 2 || e.Checks[0].Status != "fail" || e.Checks[1].Status != "ok" {
		t.Errorf("the doctor says %+v", e.Checks)
	}
}
