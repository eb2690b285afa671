// Package convert converts between messages of autosched.v1 and the types of the product, in both
// directions. Reading names every field that is wrong.
package convert

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

const findingsSegment = "/findings/"

var findingPattern = regexp.MustCompile(`^[0-9a-f]{16}$`)

// FindingName is schedulers/{scheduler}/findings/{finding}.
func FindingName(scheduler, id string) string { return SchedulerName(scheduler) + findingsSegment + id }

// ParseFinding reads schedulers/{scheduler}/findings/{finding}.
func ParseFinding(field, name string) (scheduler, id string, err error) {
	parent, id, _ := strings.Cut(name, findingsSegment)
	if !findingPattern.MatchString(id) {
		return "", "", Invalid(field, "%q is not of the form schedulers/{scheduler}/findings/{finding}", name)
	}
	scheduler, err = ParseScheduler(field, parent)
	return scheduler, id, err
}

const (
	SchedulersPrefix      = "schedulers/"
	configurationsSegment = "/configurations/"
)

// SchedulerID matches the id of a scheduler.
var SchedulerID = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// CheckID checks the id of a scheduler.
func CheckID(id string) error {
	if !SchedulerID.MatchString(id) {
		return fmt.Errorf("%q is not 1 to 63 of a-z, 0-9 and '-', starting with a letter and not ending with '-'", id)
	}
	if id == strings.Trim(configurationsSegment, "/") {
		return fmt.Errorf("%q is reserved", id)
	}
	return nil
}

// SchedulerName returns schedulers/{scheduler}.
func SchedulerName(id string) string { return SchedulersPrefix + id }

// ConfigurationName returns schedulers/{scheduler}/configurations/{revision}.
func ConfigurationName(id string, revision int64) string {
	return SchedulersPrefix + id + configurationsSegment + strconv.FormatInt(revision, 10)
}

// ParseScheduler reads schedulers/{scheduler}.
func ParseScheduler(field, name string) (string, error) {
	if id, ok := strings.CutPrefix(name, SchedulersPrefix); ok && SchedulerID.MatchString(id) {
		return id, nil
	}
	return "", Invalid(field, "%q is not of the form schedulers/{scheduler}", name)
}

// SchedulerRevisionName returns schedulers/{scheduler}@{revision}.
func SchedulerRevisionName(id string, revision int64) string {
	return SchedulerName(id) + "@" + strconv.FormatInt(revision, 10)
}

// ParseSchedulerRevision reads schedulers/{scheduler}@{revision}.
func ParseSchedulerRevision(field, name string) (id string, revision int64, err error) {
	return parseNumbered(field, name, "@", "schedulers/{scheduler}@{revision}")
}

// parseNumbered reads the name of a scheduler with a number behind it. A number has one form: 007 and +7 are none.
func parseNumbered(field, name, separator, form string) (id string, number int64, err error) {
	parent, text, _ := strings.Cut(name, separator)
	number, err = strconv.ParseInt(text, 10, 64)
	if id, bad := ParseScheduler(field, parent); bad == nil && err == nil && number > 0 &&
		strconv.FormatInt(number, 10) == text {
		return id, number, nil
	}
	return "", 0, Invalid(field, "%q is not of the form %s", name, form)
}

// ParseConfiguration reads schedulers/{scheduler}/configurations/{revision}.
func ParseConfiguration(field, name string) (string, int64, error) {
	return parseNumbered(field, name, configurationsSegment, "schedulers/{scheduler}/configurations/{revision}")
}

const roundsSegment = "/rounds/"

// RoundName is "" for no record.
func RoundName(id string, sequence int64) string {
	if sequence == 0 {
		return ""
	}
	return SchedulersPrefix + id + roundsSegment + strconv.FormatInt(sequence, 10)
}

// ParseRound reads schedulers/{scheduler}/rounds/{round}.
func ParseRound(field, name string) (id string, sequence int64, err error) {
	return parseNumbered(field, name, roundsSegment, "schedulers/{scheduler}/rounds/{round}")
}

const studyForm = "schedulers/{scheduler}/studies/{study}"

var (
	studyPattern = regexp.MustCompile(`^schedulers/([^/]+)/studies/([^/]+)$`)
	trialPattern = regexp.MustCompile(`^schedulers/([^/]+)/studies/([^/]+)/trials/([1-9][0-9]{0,9})$`)
)

// StudyName returns schedulers/{scheduler}/studies/{study}.
func StudyName(scheduler, id string) string { return SchedulerName(scheduler) + "/studies/" + id }

// TrialName returns schedulers/{scheduler}/studies/{study}/trials/{trial}.
func TrialName(scheduler, study string, id int64) string {
	return fmt.Sprintf("%s/trials/%d", StudyName(scheduler, study), id)
}

// ParseStudy reads schedulers/{scheduler}/studies/{study}.
func ParseStudy(field, name string) (scheduler, id string, err error) {
	return parseChild(field, name, studyPattern, studyForm)
}

// parseChild reads the name of a resource with an id below a scheduler.
func parseChild(field, name string, pattern *regexp.Regexp, form string) (scheduler, id string, err error) {
	m := pattern.FindStringSubmatch(name)
	if m == nil || !SchedulerID.MatchString(m[1]) || !SchedulerID.MatchString(m[2]) {
		return "", "", Invalid(field, "%q is not of the form %s", name, form)
	}
	return m[1], m[2], nil
}

// ParseTrial reads schedulers/{scheduler}/studies/{study}/trials/{trial}.
func ParseTrial(field, name string) (scheduler, id string, trial int64, err error) {
	m := trialPattern.FindStringSubmatch(name)
	if m == nil || !SchedulerID.MatchString(m[1]) || !SchedulerID.MatchString(m[2]) {
		return "", "", 0, Invalid(field, "%q is not of the form %s/trials/{trial}", name, studyForm)
	}
	trial, err = strconv.ParseInt(m[3], 10, 64)
	return m[1], m[2], trial, err
}

// WorkloadsSegment separates the scheduler from the workload in a name.
const WorkloadsSegment = "/workloads/"

// WorkloadForm is the form of a name of a workload, for errors.
const WorkloadForm = "schedulers/{scheduler}/workloads/{workload}"

var workloadPattern = regexp.MustCompile(`^schedulers/([^/]+)/workloads/([^/]+)$`)

// WorkloadName returns schedulers/{scheduler}/workloads/{workload}.
func WorkloadName(scheduler, id string) string {
	return SchedulerName(scheduler) + WorkloadsSegment + id
}

// ParseWorkload reads schedulers/{scheduler}/workloads/{workload}.
func ParseWorkload(field, name string) (scheduler, id string, err error) {
	return parseChild(field, name, workloadPattern, WorkloadForm)
}

const jobsSegment = "/jobs/"

// JobName returns schedulers/{scheduler}/jobs/{job}.
func JobName(scheduler, id string) string {
	return pb.JobName(scheduler, id)
}

// ParseJob reads schedulers/{scheduler}/jobs/{job}.
func ParseJob(field, name string) (scheduler, id string, err error) {
	parent, escaped, _ := strings.Cut(name, jobsSegment)
	id, bad := url.PathUnescape(strings.ReplaceAll(escaped, "~", "%"))
	if bad != nil || id == "" || pb.EscapeID(id) != escaped || !utf8.ValidString(id) {
		return "", "", Invalid(field, "%q is not of the form schedulers/{scheduler}/jobs/{job}, with ~XX for each byte "+
			"of the job's id that is not a letter, a digit or one of -._", name)
	}
	scheduler, err = ParseScheduler(field, parent)
	return scheduler, id, err
}

const loadSuffix = "/load"

// LoadName returns schedulers/{scheduler}/load.
func LoadName(scheduler string) string { return SchedulerName(scheduler) + loadSuffix }

// ParseLoad reads schedulers/{scheduler}/load.
func ParseLoad(field, name string) (scheduler string, err error) {
	parent, found := strings.CutSuffix(name, loadSuffix)
	if !found {
		return "", Invalid(field, "%q is not of the form schedulers/{scheduler}/load", name)
	}
	return ParseScheduler(field, parent)
}

// MetricID is the name of a metric that callers measure.
var MetricID = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// CheckMetric adds a violation to v unless name matches MetricID.
func CheckMetric(field, name string, v *Violations) {
	if !MetricID.MatchString(name) {
		v.Add(field, "%q is not 1 to 63 of a-z, 0-9 and '_', starting with a letter", name)
	}
}

// MaxRequestID bounds the field request_id, in bytes.
const MaxRequestID = 64

const maxLabels = 64

var labelKey = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

var labelValue = regexp.MustCompile(`^[a-z0-9_-]{0,63}$`)

// CheckLabels adds to v a violation for each malformed key and value, and one for more than 64 labels.
func CheckLabels(field string, labels map[string]string, v *Violations) {
	if n := len(labels); n > maxLabels {
		v.Add(field, "has %d, more than %d", n, maxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if !labelKey.MatchString(key) {
			v.Add(field, "key %.80q is not 1 to 63 of a-z, 0-9, '_' and '-' beginning with a letter", key)
		}
		if value := labels[key]; !labelValue.MatchString(value) {
			v.Add(fmt.Sprintf("%s[%.80q]", field, key), "%.80q is not at most 63 of a-z, 0-9, '_' and '-'", value)
		}
	}
}

// CheckDisplayName adds a violation to v if name is longer than 63 characters.
func CheckDisplayName(field, name string, v *Violations) {
	if utf8.RuneCountInString(name) > 63 {
		v.Add(field, "is longer than 63 characters")
	}
}

// Violations are the bad fields of a request. As an error it is
// InvalidArgument.
type Violations []*errdetails.BadRequest_FieldViolation

// Add appends a violation of field, a path in the request.
func (v *Violations) Add(field, format string, args ...any) {
	*v = append(*v, &errdetails.BadRequest_FieldViolation{Field: field, Description: fmt.Sprintf(format, args...)})
}

// Err is nil if there are none.
func (v Violations) Err() error {
	if len(v) == 0 {
		return nil
	}
	return v
}

// Invalid is the error of one bad field.
func Invalid(field, format string, args ...any) error {
	var v Violations
	v.Add(field, format, args...)
	return v
}

// Error joins the violations as "field: description", separated by semicolons.
func (v Violations) Error() string {
	parts := make([]string, len(v))
	for i, one := range v {
		parts[i] = one.Field + ": " + one.Description
	}
	return strings.Join(parts, "; ")
}

// Package has the messages whose fields have behaviours.
const Package = "autosched.v1"

// Behaviors are the google.api.field_behavior of a field.
func Behaviors(f protoreflect.FieldDescriptor) []annotations.FieldBehavior {
	return proto.GetExtension(f.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
}

// behaved are the fields of a message that a request has to have, that it cannot set, and that have such fields inside.
type behaved struct {
	required, output, inner []protoreflect.FieldDescriptor
}

var fieldsOf sync.Map // of *behaved, by name of the message

func behaviorOf(m protoreflect.MessageDescriptor) *behaved {
	if known, ok := fieldsOf.Load(m.FullName()); ok {
		return known.(*behaved)
	}
	var f behaved
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		of := Behaviors(field)
		if slices.Contains(of, annotations.FieldBehavior_OUTPUT_ONLY) {
			f.output = append(f.output, field)
			continue
		}
		if slices.Contains(of, annotations.FieldBehavior_REQUIRED) {
			f.required = append(f.required, field)
		}
		if inside := field.Message(); inside != nil && !field.IsMap() && inside.ParentFile().Package() == Package {
			if in := behaviorOf(inside); len(in.required)+len(in.output)+len(in.inner) > 0 {
				f.inner = append(f.inner, field)
			}
		}
	}
	fieldsOf.Store(m.FullName(), &f)
	return &f
}

// within calls f for the messages in the fields of a message that have fields of a behaviour.
func (of *behaved) within(m protoreflect.Message, at string, f func(protoreflect.Message, string)) {
	for _, field := range of.inner {
		if !m.Has(field) {
			continue
		}
		if !field.IsList() {
			f(m.Get(field).Message(), at+string(field.Name()))
			continue
		}
		for list, i := m.Get(field).List(), 0; i < list.Len(); i++ {
			f(list.Get(i).Message(), fmt.Sprintf("%s%s[%d]", at, field.Name(), i))
		}
	}
}

// IgnoreOutput clears the fields of answers, as AIP-203 asks for.
func IgnoreOutput(m protoreflect.Message) {
	of := behaviorOf(m.Descriptor())
	for _, field := range of.output {
		m.Clear(field)
	}
	of.within(m, "", func(in protoreflect.Message, _ string) { IgnoreOutput(in) })
}

// AddMissing adds a violation for each required field that a message lacks.
func AddMissing(v *Violations, m protoreflect.Message, at string) {
	of := behaviorOf(m.Descriptor())
	for _, field := range of.required {
		if !m.Has(field) {
			v.Add(at+string(field.Name()), "is required%s", choices(field.Enum()))
		}
	}
	of.within(m, at, func(in protoreflect.Message, at string) { AddMissing(v, in, at+".") })
}

// choices are the values of an enum as the end of a sentence.
func choices(of protoreflect.EnumDescriptor) (text string) {
	if of == nil {
		return ""
	}
	last := of.Values().Len() - 1
	for i := 1; i <= last; i++ {
		switch {
		case i == 1:
			text = ": "
		case i == last:
			text += " or "
		default:
			text += ", "
		}
		text += string(of.Values().Get(i).Name())
	}
	return text
}

// IsOutput reports whether only answers have the field of a path, or one around it.
func IsOutput(m proto.Message, path string) bool {
	of := m.ProtoReflect().Descriptor()
	for name := range strings.SplitSeq(path, ".") {
		field := of.Fields().ByName(protoreflect.Name(name))
		switch {
		case field == nil:
			return false
		case slices.Contains(Behaviors(field), annotations.FieldBehavior_OUTPUT_ONLY):
			return true
		}
		if of = field.Message(); of == nil {
			return false
		}
	}
	return false
}
