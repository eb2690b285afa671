package conf_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/space"
)

// files opens the files of a test.
func files(m map[string]string) func(string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		text, ok := m[path]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		return []byte(text), nil
	}
}

func TestRead(t *testing.T) {
	c, err := conf.Read("/etc/slurm/slurm.conf", files(map[string]string{
		"/etc/slurm/slurm.conf": `# a site
ClusterName=alpha
PRIORITYWEIGHTAGE = 5   # the manual has another case
SchedulerParameters=bf_interval=60,\
bf_window=2880,Bf_Continue
Prolog="/bin/a b" Epilog=/bin/\#c
Mystery=7
include sub/%c.conf
NodeName=g[1-4] Gres=gpu:8 \
  CPUs=64
PartitionName=train Nodes=g[1-4] MaxTime=7-0
PriorityMaxAge=90
include /etc/slurm/autosched/autosched.conf
`,
		"/etc/slurm/sub/alpha.conf":           "PriorityWeightQOS=7\n",
		"/etc/slurm/autosched/autosched.conf": "PriorityWeightAge=6\nPriorityWeightTRES=CPU=3,GRES/gpu=-20\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/etc/slurm/sub/alpha.conf": "",
		"/etc/slurm/autosched/autosched.conf": "",
		"/etc/slurm/autosched/other.conf": `end it with the line "include other.conf" after ` +
			`"ln -s autosched/other.conf /etc/slurm/other.conf"`} {
		err := c.Includes(path)
		if (err == nil) != (want == "") || err != nil && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s is included: %v, want %q", path, err, want)
		}
	}
	for key, want := range map[string]string{"priorityweightage": "6", "PriorityWeightQOS": "7", "Epilog": "/bin/#c",
		"Prolog": "/bin/a b", "Mystery": "7", "schedulerparameters": "bf_interval=60,bf_window=2880,Bf_Continue"} {
		if got := c.Get(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if l, _ := c.Find("PriorityWeightQOS"); l.String() != "/etc/slurm/sub/alpha.conf:1: PriorityWeightQOS" {
		t.Errorf("%v", l)
	}
	if len(c.Nodes) != 1 || c.Nodes[0]["cpus"] != "64" ||
		len(c.Partitions) != 1 || c.Partitions[0]["maxtime"] != "7-0" {
		t.Errorf("%v %v", c.Nodes, c.Partitions)
	}
	values, err := c.Values(conf.Tunable())
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range (space.Values{"PriorityWeightAge": space.Num(6), "PriorityMaxAge": space.Num(5400),
		"SchedulerParameters.bf_interval": space.Num(60), "SchedulerParameters.bf_resolution": space.Num(60),
		"SchedulerParameters.bf_continue": space.Bool(true), "SchedulerParameters.defer": space.Bool(false),
		"PriorityWeightTRES.gpu": space.Num(20), "PriorityWeightTRES.gpu.negative": space.Bool(true),
		"PriorityDecayHalfLife": space.Num(7 * 86400)}) {
		if got := values[id]; !got.Equal(want) {
			t.Errorf("%s is %v, want %v", id, got, want)
		}
	}
	tuned := []string{"SchedulerParameters.bf_interval", "PriorityWeightTRES.gpu"}
	site := c.Site(tuned)
	if got := fmt.Sprint(site); got != "map[PriorityWeightTRES:[CPU=3] SchedulerParameters:[bf_window=2880 Bf_Continue]]" {
		t.Error(got)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"loop":            {"include /c\n", "/c:1: /c: includes itself"},
		"missing":         {"A=1\ninclude /none\n", "/c:2: open /none"},
		"no value":        {"A=1\nSchedulerParameters=\n", "/c:2: SchedulerParameters: has no value"},
		"quotes":          {`A="x` + "\n", "/c:1: A: the quotes are not closed"},
		"behind quotes":   {`A="x"y` + "\n", "put a blank between"},
		"no equals sign":  {"A=1 hello\n", `"hello" is not Key=Value`},
		"blank in a list": {"SchedulerParameters=bf_interval=3, bf_continue\n", `"bf_continue" is not Key=Value`},
	} {
		_, err := conf.Read("/c", files(map[string]string{"/c": c.text}))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"PriorityWeightAge=-3\n":              "/c:1: PriorityWeightAge: -3 is not from 0 to 4294967295",
		"A=1\nPriorityMaxAge=soon\n":          `/c:2: PriorityMaxAge: "soon" is not a time`,
		"SchedulerParameters=bf_interval=0\n": "bf_interval: 0 is not from 1 to 10800",
		"SchedulerParameters=bf_window=x\n":   `bf_window: "x" is not a whole number from 1 to 43200`,
		"PriorityFavorSmall=perhaps\n":        "neither YES nor NO",
		"PriorityWeightTRES=GRES/gpu=1.5\n":   "whole number",
	} {
		c, err := conf.Read("/c", files(map[string]string{"/c": text}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.Values(conf.Tunable()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestReadShown(t *testing.T) {
	text, err := os.ReadFile("testdata/config.txt")
	if err != nil {
		t.Fatal(err)
	}
	c, err := conf.ReadShown("config.txt", text)
	if err != nil {
		t.Fatal(err)
	}
	values, err := c.Values(conf.Tunable())
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range (space.Values{"PriorityMaxAge": space.Num(86400), "PriorityCalcPeriod": space.Num(300),
		"PriorityWeightAge": space.Num(1000), "PriorityWeightFairshare": space.Num(0),
		"PriorityFavorSmall": space.Bool(false), "PriorityWeightTRES.gpu": space.Num(500),
		"PriorityWeightTRES.gpu.negative": space.Bool(true), "SchedulerParameters.bf_interval": space.Num(20),
		"SchedulerParameters.bf_continue": space.Bool(true)}) {
		if got := values[id]; !got.Equal(want) {
			t.Errorf("%s is %v, want %v", id, got, want)
		}
	}
	if _, err := conf.ReadShown("x", []byte("A = 1\n")); err == nil {
		t.Error("any text is taken for settings")
	}
}

func TestOptionsAreFoundAsSlurmDoes(t *testing.T) {
	c, err := conf.Read("/c", files(map[string]string{
		"/c": "SchedulerParameters=Xbf_interval=9,BF_INTERVAL=5,bf_continue=no,nodefer\n"}))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := c.Option("bf_interval", false); got != "9" {
		t.Errorf("bf_interval is %s, want that of the first name in which it stands", got)
	}
	for _, flag := range []string{"bf_continue", "defer"} {
		if _, on := c.Option(flag, true); !on {
			t.Errorf("%s is off", flag)
		}
	}
	if _, there := c.Option("bf_window", false); there {
		t.Error("bf_window is there")
	}
}

// draw draws values that slurmctld takes.
func draw(r *rand.Rand) space.Values {
	values := space.Values{}
	for _, id := range conf.Tunable() {
		s, _ := conf.Find(id)
		if s.ID != id {
			continue // a sign
		}
		if r.IntN(3) == 0 {
			continue
		}
		switch s.Kind {
		case conf.YesNo, conf.Flag:
			values[s.ID] = space.Bool(r.IntN(2) == 0)
			continue
		}
		v := s.Min + float64(r.Int64N(int64(s.Max-s.Min)+1))
		if r.IntN(2) == 0 {
			v = s.Min + float64(r.Int64N(min(1000, int64(s.Max-s.Min)+1)))
		}
		if s.Kind == conf.Span {
			v -= float64(int64(v) % 60)
		}
		values[s.ID] = space.Num(v)
		if s.Kind == conf.Weight && v > 0 {
			values[s.ID+conf.Negative] = space.Bool(r.IntN(2) == 0)
		}
	}
	for _, name := range []string{"normal", "high-1"} {
		if r.IntN(3) > 0 {
			values["QOS."+name+".Priority"] = space.Num(float64(r.Int64N(1 << uint(1+r.IntN(31)))))
		}
	}
	test := 500.0
	if v := values["SchedulerParameters.bf_max_job_test"]; !v.IsZero() {
		test = v.Float()
	}
	delete(values, "SchedulerParameters.bf_max_job_assoc")
	for id, v := range values { // priorities are sums of the weights
		if strings.HasPrefix(id, "PriorityWeight") && !strings.Contains(id, ".") {
			values[id] = space.Num(math.Floor(v.Float() / 8))
		}
	}
	for _, of := range []string{"part", "user", "user_part"} {
		if id := "SchedulerParameters.bf_max_job_" + of; !values[id].IsZero() {
			values[id] = space.Num(min(test, values[id].Float()))
		}
	}
	return values
}

// TestRoundTrip: rendered values are parsed to the same values, pass the check, and are read by Slurm.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 16))
	n := 10_000
	if testing.Short() {
		n /= 10
	}
	for i := range n {
		values := draw(r)
		form := &conf.Form{Tuned: slices.Sorted(maps.Keys(values)),
			Site: map[string][]string{conf.SchedulerParameters: {"max_rpc_cnt=100", "bf_yield_sleep=1"}}}
		text, err := form.Render(values)
		if err != nil {
			t.Fatalf("%d: %v: %v", i, values, err)
		}
		same := func(how string, got space.Values) {
			if !maps.EqualFunc(got, values, space.Value.Equal) {
				t.Fatalf("%d: %v is %s as %v from\n%s", i, values, how, got, text)
			}
		}
		got, err := form.Parse(text)
		if err != nil {
			t.Fatalf("%d: %v\n%s", i, err, text)
		}
		same("parsed", got)
		if p := conf.Check(text, form.Site[conf.SchedulerParameters], "cpu,gres/gpu"); len(p) > 0 {
			t.Fatalf("%d: %v\n%s", i, p, text)
		}
		c, err := conf.Read("/c", files(map[string]string{"/c": string(text)}))
		if err != nil {
			t.Fatalf("%d: %v\n%s", i, err, text)
		}
		if got, err = c.Values(form.Tuned); err != nil {
			t.Fatalf("%d: %v\n%s", i, err, text)
		}
		same("read", got)
	}
}

func TestRender(t *testing.T) {
	form := &conf.Form{Site: map[string][]string{conf.SchedulerParameters: {"bf_continue", "max_rpc_cnt=100"},
		conf.WeightTRES: {"CPU=10"}}}
	body, err := form.Render(space.Values{"SchedulerParameters.bf_interval": space.Num(12),
		"SchedulerParameters.defer": space.Bool(true), "PriorityWeightAge": space.Num(4000),
		"PriorityMaxAge": space.Num(90000), "PriorityFavorSmall": space.Bool(true),
		"PriorityWeightTRES.gpu": space.Num(60000), "PriorityWeightTRES.gpu.negative": space.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	text := conf.Head(7, time.Unix(1e9, 0), body) + string(body)
	golden, err := os.ReadFile("testdata/autosched.conf")
	if err != nil || text != string(golden) {
		t.Errorf("(%v) it is\n%s", err, text)
	}
	head, _, _ := strings.Cut(text, "\n")
	changed := bytes.Replace([]byte(text), []byte("4000"), []byte("4001"), 1)
	if _, sum, _ := strings.Cut(head, ", settings "); !strings.HasPrefix(conf.Fingerprint([]byte(text)), sum) ||
		strings.HasPrefix(conf.Fingerprint(changed), sum) {
		t.Error("the head does not show that a line was changed")
	}
	for id, v := range map[string]space.Value{"PriorityWeightAge": space.Num(-1), "PriorityMaxAge": space.Num(90),
		"SchedulerParameters.bf_interval": space.Num(1.5), "bf_interval": space.Num(5),
		"PriorityWeightTRES.gpu.negative": space.Bool(true)} {
		if text, err := form.Render(space.Values{id: v}); err == nil {
			t.Errorf("%s %v is rendered: %s", id, v, text)
		}
	}
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want conf.Effect
		says string
	}{
		"misspelt option":       {"SchedulerParameters=bf_intervall=5\n", conf.Ignored, "did you mean bf_interval"},
		"out of range":          {"SchedulerParameters=bf_interval=99999\n", conf.Ignored, "from 1 to 10800"},
		"no number":             {"SchedulerParameters=bf_interval=often\n", conf.Ignored, "whole number"},
		"no main scheduler":     {"SchedulerParameters=sched_interval=-1\n", conf.Ignored, "from 1 to 10800"},
		"flag with a value":     {"SchedulerParameters=bf_continue=no\n", conf.Ignored, "switches it on"},
		"option without value":  {"SchedulerParameters=bf_interval\n", conf.Ignored, "needs a value"},
		"found elsewhere":       {"SchedulerParameters=xbf_interval=4,bf_interval=5\n", conf.Ignored, "finds bf_interval=4"},
		"twice in a list":       {"SchedulerParameters=bf_interval=4,bf_interval=5\n", conf.Ignored, "first"},
		"limit above the depth": {"SchedulerParameters=bf_max_job_user=600\n", conf.Ignored, "bf_max_job_test, 500"},
		"removed":               {"SchedulerParameters=max_job_bf=5\n", conf.Fatal, "removed"},
		"unknown TRES":          {"PriorityWeightTRES=GRES/foo=3\n", conf.Fatal, "AccountingStorageTRES"},
		"odd TRES":              {"PriorityWeightTRES=hello\n", conf.Fatal, "AccountingStorageTRES"},
		"odd weight":            {"PriorityWeightTRES=GRES/gpu=x\n", conf.Fatal, "whole number"},
		"weight of CPUs":        {"PriorityWeightTRES=cpu=3\n", conf.Foreign, "may be tuned"},
		"unknown key":           {"PriorityWeightNoise=3\n", conf.Foreign, "slurm.conf"},
		"another's key":         {"PreemptMode=REQUEUE\n", conf.Foreign, "slurm.conf"},
		"blank in a list":       {"SchedulerParameters=bf_interval=5, bf_continue\n", conf.Refused, "blank"},
		"empty value":           {"SchedulerParameters=\n", conf.Refused, "Key=value"},
		"negative weight":       {"PriorityWeightAge=-5\n", conf.Refused, "from 0"},
		"fraction":              {"PriorityWeightAge=.5\n", conf.Refused, "whole number"},
		"bad time":              {"PriorityMaxAge=soon\n", conf.Refused, "time"},
		"no half-life":          {"PriorityDecayHalfLife=0\n", conf.Refused, "0-00:01:00"},
		"calculated all along":  {"PriorityCalcPeriod=0\n", conf.Refused, "0-00:01:00"},
		"weights that overflow": {"PriorityWeightAge=4000000000\nPriorityWeightQOS=4000000000\n", conf.Ignored, "sum up"},
		"cut off":               {"PriorityWeightAge=5", conf.Refused, "cut off"},
		"cut off within a key":  {"PriorityWeig\n", conf.Refused, "Key=value"},
		"two lines":             {"PriorityWeightAge=5\nPRIORITYWEIGHTAGE=6\n", conf.Refused, "twice"},
		"include":               {"include /etc/passwd\n", conf.Refused, "Key=value"},
		"QOS without its #":     {"QOS.high.Priority=5\n", conf.Refused, "behind a #"},
		"QOS twice":             {"#QOS.high.Priority=5\n#QOS.high.Priority=6\n", conf.Refused, "twice"},
		"QOS out of range":      {"#QOS.high.Priority=2147483648\n", conf.Refused, "from 0"},
		"nothing":               {"# nothing\n", conf.Ignored, "sets nothing"},
	} {
		found := conf.Check([]byte(c.text), nil, "cpu,mem,gres/gpu")
		if !slices.ContainsFunc(found, func(p conf.Problem) bool {
			return p.Effect == c.want && strings.Contains(p.Error(), c.says)
		}) {
			t.Errorf("%s: %v, want %s with %q", name, found, c.want, c.says)
		}
	}
	over := "PriorityWeightAge=4000000000\nPriorityWeightQOS=4000000000\nPriorityWeightJobSize=1\n"
	if found := conf.Check([]byte(over), nil, ""); len(found) != 1 || found[0].Line != 2 {
		t.Errorf("weights that overflow: %v, want one problem of line 2", found)
	}
	good := "# mine\n# QOS.high.Priority is the site's\n#QOS.high.Priority=5\nPriorityMaxAge=1-0\nPriorityWeightTRES=CPU=3,GRES/gpu=-7\nSchedulerParameters=bf_interval=5,mine=3\n"
	if found := conf.Check([]byte(good), []string{"mine=3", "CPU=3"}, "cpu,mem,gres/gpu"); len(found) > 0 {
		t.Error(found)
	}
}

var errOpen = errors.New("nothing else is read")

// FuzzRead: a slurm.conf is read or refused, never more than is there.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"A=1\n", "NodeName=a B=\"c d\" \\\n E=f # g\n", "include b\n", "A\\#=#\n", "A = 1\nA+=2\n",
		"SchedulerParameters=bf_interval=60,\\\nbf_window=2880\n", "PriorityMaxAge=7-0\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := conf.Read("/c", func(path string) ([]byte, error) {
			if path == "/c" {
				return []byte(text), nil
			}
			return nil, errOpen
		})
		if err != nil {
			return
		}
		for _, l := range c.Lines {
			if l.Key == "" || l.Number < 1 || l.Number > strings.Count(text, "\n")+1 {
				t.Fatalf("%+v", l)
			}
		}
		_, _ = c.Values(conf.Tunable())
		c.Site(nil)
	})
}

// FuzzReadShown: output of scontrol is read or refused.
func FuzzReadShown(f *testing.F) {
	f.Add("ClusterName = a\nPriorityMaxAge = 7-00:00:00\nSchedulerParameters = (null)\n")
	f.Add("Configuration data as of\nClusterName=\n = \nSlurmctldHost[0] = a(b)\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := conf.ReadShown("x", []byte(text)); err == nil {
			_, _ = c.Values(conf.Tunable())
		}
	})
}

// FuzzForm: a file is parsed or refused; a parsed one is rendered and passes the check.
func FuzzForm(f *testing.F) {
	for _, text := range []string{"PriorityWeightAge=5\n", "SchedulerParameters=bf_interval=5,defer\n", "# x\n\n",
		"PriorityWeightTRES=GRES/gpu=-5\nPriorityMaxAge=5\nPriorityFavorSmall=yes\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		form := &conf.Form{}
		values, err := form.Parse([]byte(text))
		if err != nil {
			return
		}
		again, err := form.Render(values)
		if err != nil {
			t.Fatalf("%v: %v", values, err)
		}
		got, err := form.Parse(again)
		if err != nil || !maps.EqualFunc(got, values, space.Value.Equal) {
			t.Fatalf("%v is parsed as %v, %v from\n%s", values, got, err, again)
		}
	})
}
