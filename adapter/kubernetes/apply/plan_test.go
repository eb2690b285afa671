package apply

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func quota(queue string, from, to any) Change {
	return Change{Field{Object{Resource: clusterQueues, Name: queue}, quotaPath("borrowingLimit")}, from, to}
}

// TestPlan: numbers that shrink precede all that grow, and an object's other values go with its first request.
func TestPlan(t *testing.T) {
	t.Parallel()
	a, b := Object{Resource: clusterQueues, Name: "a"}, Object{Resource: clusterQueues, Name: "b"}
	weight := "/spec/fairSharing/weight"
	steps := Plan([]Change{
		quota("a", "8", "16"), quota("b", "16", "8"),
		{Field{Object{Resource: clusterQueues, Name: "c"}, quotaPath("borrowingLimit")}, "8", nil},
		{Field{b, quotaPath("lendingLimit")}, nil, "4"},
		{Field{a, strategy}, "BestEffortFIFO", "StrictFIFO"},
		{Field{a, weight}, "1", "2"},
		{Field{b, weight}, "2", "1"},
		{Field{b, within}, "Never", "LowerPriority"},
		{Field{Object{Resource: clusterQueues, Name: "c"}, strategy}, "StrictFIFO", "BestEffortFIFO"},
	})
	var got strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&got, "%v patch=%t\n", s.Object, s.Patch)
		for _, c := range s.Changes {
			fmt.Fprintf(&got, "  %s %s -> %s\n", c.Path[strings.LastIndex(c.Path, "/")+1:], text(c.Old), text(c.New))
		}
	}
	const want = `clusterqueues.kueue.x-k8s.io/b patch=false
  weight 2 -> 1
  withinClusterQueue Never -> LowerPriority
clusterqueues.kueue.x-k8s.io/b patch=true
  borrowingLimit 16 -> 8
  lendingLimit  -> 4
clusterqueues.kueue.x-k8s.io/c patch=false
  queueingStrategy StrictFIFO -> BestEffortFIFO
clusterqueues.kueue.x-k8s.io/a patch=false
  weight 1 -> 2
  queueingStrategy BestEffortFIFO -> StrictFIFO
clusterqueues.kueue.x-k8s.io/a patch=true
  borrowingLimit 8 -> 16
clusterqueues.kueue.x-k8s.io/c patch=true
  borrowingLimit 8 -> none
`
	if g := strings.ReplaceAll(got.String(), "-> \n", "-> none\n"); g != want {
		t.Errorf("got\n%swant\n%s", g, want)
	}
	if n := len(Whole([]Change{quota("a", "8", "4"), {Field{a, quotaPath("lendingLimit")}, "1", "2"}})); n != 1 {
		t.Errorf("%d dry runs", n)
	}
}

// TestNothingTwice: while quotas change whose sum stays, no state between lends more than there is.
func TestNothingTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "queues")
		from, to := make([]int, n), make([]int, n)
		for range rapid.IntRange(1, 64).Draw(t, "gpus") {
			from[rapid.IntRange(0, n-1).Draw(t, "from")]++
			to[rapid.IntRange(0, n-1).Draw(t, "to")]++
		}
		var changes []Change
		total := 0
		now := map[string]int{}
		for i := range n {
			total += from[i]
			name := fmt.Sprint("q", i)
			now[name] = from[i]
			if from[i] != to[i] {
				changes = append(changes, quota(name, fmt.Sprint(from[i]), fmt.Sprint(to[i])))
			}
		}
		for _, s := range Plan(changes) {
			var v int
			if _, err := fmt.Sscan(text(s.Changes[0].New), &v); err != nil {
				t.Fatal(err)
			}
			now[s.Name] = v
			sum := 0
			for _, v := range now {
				sum += v
			}
			if sum > total {
				t.Fatalf("%d GPUs of %d: %v", sum, total, changes)
			}
		}
		for i := range n {
			if now[fmt.Sprint("q", i)] != to[i] {
				t.Fatal(now)
			}
		}
	})
}

// TestRequests: the bodies of both kinds of requests.
func TestRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a.queueingStrategy", "a.borrowingLimit")
	d := f.open()
	f.apply(d, config(t, 1, "a.queueingStrategy=StrictFIFO"), "")
	o := f.s.get("a")
	m := &Mark{Revision: 2, Time: f.now, Set: "s"}
	a := Object{Resource: clusterQueues, Name: "a"}
	const mark = `"{\"revision\":2,\"time\":\"2026-11-01T12:00:00Z\",\"set\":\"s\",\"first\":null}"`
	for _, x := range []struct{ got, want string }{
		{string(applied(o, []Change{{Field{a, within}, "Never", "LowerPriority"}}, m, false)), `{
"apiVersion":"kueue.x-k8s.io/v1beta2",
"kind":"ClusterQueue",
"metadata":{"annotations":{"autosched.dev/applied":` + mark + `},"name":"a"},
"spec":{"preemption":{"withinClusterQueue":"LowerPriority"},"queueingStrategy":"StrictFIFO"}}`},
		{string(jsonPatch(o, []Change{{Field{a, quotaPath("borrowingLimit")}, "8", "4"},
			{Field{a, quotaPath("lendingLimit")}, nil, "2"}}, m)), `[
{"op":"test","path":"/spec/resourceGroups/0/flavors/0/name","value":"h100"},
{"op":"test","path":"/spec/resourceGroups/0/flavors/0/resources/1/name","value":"nvidia.com/gpu"},
{"op":"test","path":"/spec/resourceGroups/0/flavors/0/resources/1","value":` +
			`{"borrowingLimit":"8","name":"nvidia.com/gpu","nominalQuota":"32"}},
{"op":"add","path":"/spec/resourceGroups/0/flavors/0/resources/1/borrowingLimit","value":"4"},
{"op":"add","path":"/spec/resourceGroups/0/flavors/0/resources/1/lendingLimit","value":"2"},
{"op":"add","path":"/metadata/annotations/autosched.dev~1applied-in-lists","value":` + mark + `}]`},
	} {
		if want := strings.ReplaceAll(x.want, "\n", ""); x.got != want {
			t.Errorf("got\n%s\nwant\n%s", x.got, want)
		}
	}
}
