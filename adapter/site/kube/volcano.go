package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/schedulers/volcano"
	"github.com/autosched/autosched/schedulers/volcano/conf"
	"github.com/autosched/autosched/space"
)

// Volcano has its settings in one text, in a ConfigMap, and in Queues.
var Volcano = &Scheduler{Name: "volcano", title: "Volcano", history: []string{"PriorityClass", "PodGroup", "Pod"},
	read: readVolcano, fields: volcanoFields}

// ConfigMap is the object of a text of Volcano's scheduler, by the names of Volcano's chart.
func ConfigMap(text []byte) ([]byte, error) {
	return json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": "volcano-system", "name": "volcano-scheduler-configmap"},
		"data":     map[string]any{conf.Key: string(text)}})
}

func readVolcano(files map[string][]byte) (*objects, error) {
	s, err := conf.Read(files)
	switch {
	case err != nil:
		return nil, err
	case len(s.Cluster.VCs) == 0:
		return nil, errors.New("there is no Queue among the objects: save kubectl get queues.scheduling.volcano.sh -o json")
	case s.Cluster.TotalGPUs() == 0:
		return nil, errors.New("there is no Node with GPUs among the objects: save kubectl get nodes -o json")
	case s.ConfigMap == nil:
		return nil, errors.New("the scheduler's text is not among the objects: save its ConfigMap, or name the text with --conf")
	}
	if _, err := textOf(s); err != nil {
		return nil, err
	}
	o := &objects{cluster: s.Cluster, events: s.Events, findings: s.Findings}
	if n := s.Mapper.Unknown(); n > 0 {
		o.findings = append(o.findings,
			fmt.Sprintf("%d PodGroups ask for no GPUs, or their Pods are not among the objects", n))
	}
	o.params, o.rules, o.values = s.Space()
	return o, s.Cluster.Validate()
}

// textOf returns the values of the scheduler's text. One that is not simulated whole is an error: a change could not
// write it anew.
func textOf(s *conf.Site) (space.Values, error) {
	values, err := (&conf.Form{}).Parse([]byte(s.ConfigMap.Get("data", conf.Key).Text()))
	if err != nil {
		return nil, fmt.Errorf("%s: data.%s: %w", s.ConfigMap, conf.Key, err)
	}
	return values, nil
}

func volcanoFields(files map[string][]byte, after space.Config, _ map[key]map[string]any) ([]field, error) {
	s, err := conf.Read(files)
	if err != nil {
		return nil, err
	}
	values := native.ValuesOf(after)
	inText := maps.Clone(values)
	maps.DeleteFunc(inText, func(id string, _ space.Value) bool { return !conf.InText(id) })
	text, err := native.Changed(&conf.Form{}, []byte(s.ConfigMap.Get("data", conf.Key).Text()), inText)
	if err != nil {
		return nil, fmt.Errorf("%s: data.%s: %w", s.ConfigMap, conf.Key, err)
	}
	out := []field{{keyOf(s.ConfigMap), conf.Key, []string{"data", conf.Key}, string(text)}}
	var names []string
	for _, q := range s.Queues {
		names = append(names, q.Name)
	}
	settings, err := conf.Settings(values, names)
	if err != nil {
		return nil, err
	}
	for _, set := range settings {
		q := s.Queues[slices.Index(names, set.Queue)]
		value, err := set.Field(volcano.Weight)
		if err != nil {
			return nil, err
		}
		inForce := any(int64(q.Weight))
		if set.Name == volcano.Reclaimable {
			inForce = q.Reclaimable
		}
		if value != inForce { // also where the default is
			out = append(out, field{key{kind: "Queue", name: set.Queue}, set.Name, []string{"spec", set.Name}, value})
		}
	}
	return out, nil
}
