// Package kube describes a cluster under Kueue or Volcano by its objects, as kubectl get -o json prints them, and a
// change of its settings as commands of kubectl. The package changes nothing of the cluster.
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
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Files of a folder beside those of every site.
const (
	// Queues has the objects that configure the scheduler.
	Queues = "queues.json"
	// History has the jobs that the cluster keeps, as a trace.
	History = "history.json"
)

// A Scheduler is one whose objects are read.
type Scheduler struct {
	// Name is that of its model.
	Name  string
	title string
	// history are the kinds of the objects in [History], in their order there.
	history []string
	read    func(files map[string][]byte) (*objects, error)
	// fields returns the fields of objects that a configuration changes; some may have the value already.
	fields func(files map[string][]byte, after space.Config, objects map[key]map[string]any) ([]field, error)
}

// Schedulers are the ones whose objects are read.
var Schedulers = []*Scheduler{Kueue, Volcano}

// Find returns a scheduler by its name, nil if its objects are not read.
func Find(name string) *Scheduler {
	for _, s := range Schedulers {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// objects is a cluster as a scheduler's objects say.
type objects struct {
	cluster  workload.Cluster
	events   []workload.Event
	findings []string
	// The parameters with an effect, their rules, and the values in force.
	params []space.Param
	rules  []space.Rule
	values space.Values
}

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
func (s *Scheduler) Describe(id string, files map[string][]byte) (*Description, error) {
	o, err := s.read(files)
	if err != nil {
		return nil, err
	}
	if len(o.params) == 0 {
		return nil, errors.New("no setting of the queues has an effect: there is nothing to tune")
	}
	of, err := space.New(o.params, o.rules)
	if err != nil {
		return nil, err
	}
	config, changes := of.Project(o.values)
	d := &Description{Cluster: o.cluster.String(), Notes: o.findings,
		registration: site.Registration{ID: id, Cluster: o.cluster, Parameters: config}}
	for _, p := range o.params { // the ones without effect now, too
		d.registration.Tuned = append(d.registration.Tuned, p.ID)
	}
	for _, c := range changes {
		d.Notes = append(d.Notes, fmt.Sprintf("%s: %v is taken for %v (%s)", c.Param, c.To, c.From, c.Rule))
	}
	jobs := map[string]bool{}
	for _, e := range o.events {
		jobs[e.Job.ID] = true
	}
	d.Jobs = len(jobs)
	var queues []json.RawMessage
	past := map[string][]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := each(files[name], func(kind string, object json.RawMessage) {
			if slices.Contains(s.history, kind) {
				past[kind] = append(past[kind], object)
			} else {
				queues = append(queues, object)
			}
		}); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if d.queues, err = list(queues); err != nil {
		return nil, err
	}
	var recorded []json.RawMessage
	for _, kind := range s.history {
		recorded = append(recorded, past[kind]...)
	}
	d.recorded, err = list(recorded)
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

// Narrow returns the scheduler with the parameters of a registration.
func (s *Scheduler) Narrow(registered *space.Space) (*schedulers.Scheduler, error) {
	of, err := schedulers.Find(s.Name)
	if err != nil {
		return nil, err
	}
	return of.WithSpace(registered.Params(), registered.Rules())
}
