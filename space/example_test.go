package space_test

import (
	"fmt"

	"github.com/autosched/autosched/space"
)

// ladder is a small queueing policy: thresholds between queues, and a limit
// after which a starving job is promoted (0 is off).
func ladder() *space.Space {
	s, err := space.New([]space.Param{
		{ID: "priority", Kind: space.KindCategorical, Categories: []string{"service", "time"},
			Default: space.Text("service")},
		{ID: "queues", Kind: space.KindInt, Min: 1, Max: 6, Default: space.Int(3)},
		{ID: "queue_thresholds", Kind: space.KindFloat, Unit: "GPU-s", Min: 60, Max: 1e6, Log: true,
			Array: &space.Array{Length: "queues", Offset: -1, Max: 5}, Default: space.Nums(3250, 7200)},
		{ID: "starve_limit", Kind: space.KindDuration, Min: 60, Max: 86400, Log: true,
			Special: []space.Special{{Value: 0, Name: "off", Weight: 0.25}}, Default: space.Num(0)},
	}, []space.Rule{
		{ID: "thresholds_increase", Ordering: &space.Ordering{Params: []string{"queue_thresholds"}, MinRatio: 1.1}},
		{ID: "starving_needs_queues", Activation: &space.Activation{Param: "starve_limit", When: "queues",
			Op: space.GreaterEqual, Value: space.Int(2)}},
	})
	if err != nil {
		panic(err)
	}
	return s
}

func Example() {
	s := ladder()
	fmt.Println(s.Default())

	c, err := s.Parse(s.Default(), []string{"queues=4", "starve_limit=10m"})
	fmt.Println(c, err)

	_, err = s.Parse(s.Default(), []string{"queue_thresholds=7200,30"})
	fmt.Println(err)

	c, changes := s.Project(space.Values{"queues": space.Int(9), "queue_thresholds": space.Nums(500, 100)})
	fmt.Println(c)
	for _, ch := range changes {
		fmt.Println(ch.Param, ch.Rule)
	}
	// Output:
	// priority=service queues=3 queue_thresholds=3250,7200 starve_limit=off
	// priority=service queues=4 queue_thresholds=3250,7200,15950.8 starve_limit=10m <nil>
	// queue_thresholds[1]: 30 is out of range, want 60 to 1000000 GPU-s
	// priority=service queues=6 queue_thresholds=100,500,2500,12500,62500 starve_limit=off
	// priority missing
	// queues range
	// queue_thresholds length
	// starve_limit missing
}
