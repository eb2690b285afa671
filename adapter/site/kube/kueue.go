package kube

import (
	"fmt"
	"slices"

	"github.com/autosched/autosched/schedulers/kueue/conf"
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/space"
)

// Kueue has its settings in ClusterQueues.
var Kueue = &Scheduler{Name: "kueue", title: "Kueue", history: []string{"Workload", "LocalQueue"},
	read: readKueue, fields: kueueFields}

func readKueue(files map[string][]byte) (*objects, error) {
	s, err := conf.Read(files)
	if err != nil {
		return nil, err
	}
	o := &objects{cluster: s.Cluster, events: s.Events}
	o.params, o.rules, o.values, err = s.Space()
	o.findings = s.Findings // of Space, too
	return o, err
}

func kueueFields(files map[string][]byte, after space.Config, objects map[key]map[string]any) ([]field, error) {
	s, err := conf.Read(files)
	if err != nil {
		return nil, err
	}
	settings, err := conf.Settings(native.ValuesOf(after), s.Cluster)
	if err != nil {
		return nil, err
	}
	inForce := conf.InForce(s.Cluster)
	var out []field
	for _, set := range settings {
		if slices.Contains(inForce, set) {
			continue // the same, or its default
		}
		of := key{kind: "ClusterQueue", name: set.Queue}
		path, err := conf.Path(objects[of], set.Name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", set.Queue, err)
		}
		out = append(out, field{of, set.Name, path, set.Value})
	}
	return out, nil
}
