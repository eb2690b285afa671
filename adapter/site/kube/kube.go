// Package kube describes a cluster under Kueue by its objects, as kubectl get -o json prints them, and a change of its
// settings as commands of kubectl. The package changes nothing of the cluster.
package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/autosched/autosched/adapter/site"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/kueue/conf"
	"github.com/autosched/autosched/space"
)

// Files of a folder beside those of every site.
const (
	// Queues has the objects that configure the scheduler.
	Queues = "queues.json"
	// History has the jobs that the cluster keeps, as a trace.
	History = "history.json"
)

// history are the kinds of the objects in [History].
var history = []string{"Workload", "LocalQueue"}

// A Description is a cluster as its objects say.
type Description struct {
	Cluster string   `json:"cluster"`
	Files   []string `json:"files"` // written by Write
	// Jobs is the number of jobs in the history.
	Jobs int `json:"jobs"`
	// Notes list the parts that are not simulated, by object and field.
	Notes []string `json:"notes"`

	registration     site.Registration
	queues, recorded []byte
}

// Describe reads files of objects by their names. An error names the file, the object and the field.
func Describe(id string, files map[string][]byte) (*Description, error) {
	s, err := conf.Read(files)
	if err != nil {
		return nil, err
	}
	params, rules, values, err := s.Space()
	if err != nil {
		return nil, err
	}
	if len(params) == 0 {
		return nil, errors.New("no setting of the queues has an effect: there is nothing to tune")
	}
	of, err := space.New(params, rules)
	if err != nil {
		return nil, err
	}
	config, changes := of.Project(values)
	d := &Description{Cluster: s.Cluster.String(), Notes: s.Findings,
		registration: site.Registration{ID: id, Cluster: s.Cluster, Parameters: config, Tuned: config.IDs()}}
	for _, c := range changes {
		d.Notes = append(d.Notes, fmt.Sprintf("%s: %v is taken for %v (%s)", c.Param, c.To, c.From, c.Rule))
	}
	jobs := map[string]bool{}
	for _, e := range s.Events {
		jobs[e.Job.ID] = true
	}
	d.Jobs = len(jobs)
	items := map[bool][]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := each(files[name], func(kind string, object json.RawMessage) {
			past := slices.Contains(history, kind)
			items[past] = append(items[past], object)
		}); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if d.queues, err = list(items[false]); err != nil {
		return nil, err
	}
	d.recorded, err = list(items[true])
	return d, err
}

// each calls f with every object of a file: one, several, or lists.
func each(text []byte, f func(kind string, object json.RawMessage)) error {
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var raw json.RawMessage
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var o struct {
			Kind  string
			Items []json.RawMessage
		}
		if err := json.Unmarshal(raw, &o); err != nil {
			return err
		}
		if o.Items == nil {
			f(o.Kind, raw)
		}
		for _, item := range o.Items {
			if err := each(item, f); err != nil {
				return err
			}
		}
	}
}

func list(items []json.RawMessage) ([]byte, error) {
	if items == nil {
		items = []json.RawMessage{}
	}
	return json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": items}, "", " ")
}

// Write writes the files of a folder and lists them in d.Files. encode renders the registration as JSON of the API.
func (d *Description) Write(f site.Folder, encode func(site.Registration) ([]byte, error)) error {
	files, err := site.Describe(d.registration, d.registration.Parameters, encode)
	if err != nil {
		return err
	}
	d.Files, err = f.Write(append(files, site.File{Name: Queues, Text: d.queues},
		site.File{Name: History, Text: d.recorded})...)
	return err
}

// Narrow returns Kueue with the parameters of a registration.
func Narrow(registered *space.Space) (*schedulers.Scheduler, error) {
	s, err := schedulers.Find("kueue")
	if err != nil {
		return nil, err
	}
	return s.WithSpace(registered.Params(), registered.Rules())
}
