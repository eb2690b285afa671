package convert

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/space"
)

// SpaceOf is the space that a scheduler's specification describes, as the service answered it.
func SpaceOf(spec *pb.SchedulerSpec) (*space.Space, error) {
	var v Violations
	var params []space.Param
	var rules []space.Rule
	for i, p := range spec.GetParameters() {
		params = append(params, ParamFromProto(p, fmt.Sprintf("%s[%d]", ParametersField, i), &v))
	}
	for i, c := range spec.GetConstraints() {
		rules = append(rules, RuleFromProto(c, fmt.Sprintf("%s[%d]", ConstraintsField, i), &v))
	}
	if err := v.Err(); err != nil {
		return nil, err
	}
	return space.New(params, rules)
}

const (
	ParametersField  = "scheduler.spec.parameters"
	ConstraintsField = "scheduler.spec.constraints"
)

var operators = map[pb.ActivationRule_Operator]space.Op{
	pb.ActivationRule_EQUAL: space.Equal, pb.ActivationRule_NOT_EQUAL: space.NotEqual,
	pb.ActivationRule_LESS:          space.Less,
	pb.ActivationRule_LESS_OR_EQUAL: space.LessEqual, pb.ActivationRule_GREATER: space.Greater,
	pb.ActivationRule_GREATER_OR_EQUAL: space.GreaterEqual, pb.ActivationRule_IN: space.In,
}

func operatorOf(op space.Op) pb.ActivationRule_Operator {
	for p, o := range operators {
		if o == op {
			return p
		}
	}
	return pb.ActivationRule_OPERATOR_UNSPECIFIED
}

// ParamFromProto reads one parameter. What it cannot say in space's terms goes
// to v; the rest is for space to judge.
func ParamFromProto(p *pb.ParameterSpec, field string, v *Violations) space.Param {
	out := space.Param{ID: p.GetParameterId(), Module: p.GetModule(), Unit: p.GetUnit(),
		Description: p.GetDescription()}
	switch t := p.GetParameterValueSpec().(type) {
	case *pb.ParameterSpec_DoubleValueSpec:
		setDouble(&out, t.DoubleValueSpec)
	case *pb.ParameterSpec_IntegerValueSpec:
		setInteger(&out, t.IntegerValueSpec)
	case *pb.ParameterSpec_DurationValueSpec:
		setDuration(&out, t.DurationValueSpec)
	case *pb.ParameterSpec_CategoricalValueSpec:
		out.Kind, out.Categories = space.KindCategorical, t.CategoricalValueSpec.GetValues()
	case *pb.ParameterSpec_OrdinalValueSpec:
		out.Kind, out.Categories = space.KindOrdinal, t.OrdinalValueSpec.GetValues()
	case *pb.ParameterSpec_BooleanValueSpec:
		out.Kind = space.KindBool
	case *pb.ParameterSpec_ArraySpec:
		a := t.ArraySpec
		out.Array = &space.Array{Length: a.GetLengthParameterId(), Offset: int(a.GetLengthOffset()),
			Max: int(a.GetMaxLength())}
		switch e := a.GetElementValueSpec().(type) {
		case *pb.ArraySpec_DoubleValueSpec:
			setDouble(&out, e.DoubleValueSpec)
		case *pb.ArraySpec_IntegerValueSpec:
			setInteger(&out, e.IntegerValueSpec)
		case *pb.ArraySpec_DurationValueSpec:
			setDuration(&out, e.DurationValueSpec)
		default:
			v.Add(field+".array_spec.element_value_spec",
				"is required: double_value_spec, integer_value_spec or duration_value_spec")
		}
	default:
		v.Add(field+".parameter_value_spec", "is required, such as integer_value_spec")
	}
	switch p.GetScaleType() {
	case pb.ParameterSpec_SCALE_TYPE_UNSPECIFIED, pb.ParameterSpec_LINEAR:
	case pb.ParameterSpec_LOG:
		out.Log = true
	default:
		v.Add(field+".scale_type", "%d is not known", p.GetScaleType())
	}
	for _, s := range p.GetSpecialValues() {
		out.Special = append(out.Special, space.Special{Value: s.GetValue(), Name: s.GetDisplayName(),
			Weight: s.GetSamplingWeight()})
	}
	var why string
	if out.Default, why = ValueFromProto(p.GetDefaultValue()); why != "" {
		v.Add(field+".default_value", "%s", why)
	}
	return out
}

func setDouble(p *space.Param, s *pb.DoubleValueSpec) {
	p.Kind, p.Min, p.Max, p.Step = space.KindFloat, s.GetMinValue(), s.GetMaxValue(), s.GetStep()
}

func setInteger(p *space.Param, s *pb.IntegerValueSpec) {
	p.Kind, p.Min, p.Max, p.Step = space.KindInt, float64(s.GetMinValue()), float64(s.GetMaxValue()),
		float64(s.GetStep())
}

func setDuration(p *space.Param, s *pb.DurationValueSpec) {
	p.Kind, p.Min, p.Max, p.Step = space.KindDuration, s.GetMinValue(), s.GetMaxValue(), s.GetStep()
}

// Parameters returns the parameters of a configuration's space, with its values as their defaults.
func Parameters(c space.Config) []*pb.ParameterSpec {
	var out []*pb.ParameterSpec
	for _, p := range c.Space().Params() {
		if v := c.Get(p.ID); !v.IsZero() {
			p.Default = v
		}
		out = append(out, ParamToProto(&p))
	}
	return out
}

// Constraints are the rules of a space.
func Constraints(sp *space.Space) []*pb.DependencyConstraint {
	var out []*pb.DependencyConstraint
	for _, r := range sp.Rules() {
		out = append(out, ruleToProto(&r, sp))
	}
	return out
}

// ParamToProto writes one parameter.
func ParamToProto(p *space.Param) *pb.ParameterSpec {
	out := &pb.ParameterSpec{
		ParameterId: p.ID, Module: p.Module, Unit: p.Unit, Description: p.Description,
		ScaleType: pb.ParameterSpec_LINEAR, DefaultValue: ValueToProto(p, p.Default),
	}
	if p.Log {
		out.ScaleType = pb.ParameterSpec_LOG
	}
	for _, s := range p.Special {
		out.SpecialValues = append(out.SpecialValues, &pb.SpecialValue{Value: s.Value, DisplayName: s.Name,
			SamplingWeight: s.Weight})
	}
	double := &pb.DoubleValueSpec{MinValue: p.Min, MaxValue: p.Max, Step: p.Step}
	integer := &pb.IntegerValueSpec{MinValue: int64(p.Min), MaxValue: int64(p.Max), Step: int64(p.Step)}
	duration := &pb.DurationValueSpec{MinValue: p.Min, MaxValue: p.Max, Step: p.Step}
	if p.Array != nil {
		a := &pb.ArraySpec{LengthParameterId: p.Array.Length, LengthOffset: int32(p.Array.Offset),
			MaxLength: int32(p.Array.Max)}
		switch p.Kind {
		case space.KindInt:
			a.ElementValueSpec = &pb.ArraySpec_IntegerValueSpec{IntegerValueSpec: integer}
		case space.KindDuration:
			a.ElementValueSpec = &pb.ArraySpec_DurationValueSpec{DurationValueSpec: duration}
		default:
			a.ElementValueSpec = &pb.ArraySpec_DoubleValueSpec{DoubleValueSpec: double}
		}
		out.ParameterValueSpec = &pb.ParameterSpec_ArraySpec{ArraySpec: a}
		return out
	}
	switch p.Kind {
	case space.KindInt:
		out.ParameterValueSpec = &pb.ParameterSpec_IntegerValueSpec{IntegerValueSpec: integer}
	case space.KindDuration:
		out.ParameterValueSpec = &pb.ParameterSpec_DurationValueSpec{DurationValueSpec: duration}
	case space.KindBool:
		out.ParameterValueSpec = &pb.ParameterSpec_BooleanValueSpec{BooleanValueSpec: &pb.BooleanValueSpec{}}
	case space.KindOrdinal:
		ordinal := &pb.OrdinalValueSpec{Values: p.Categories}
		out.ParameterValueSpec = &pb.ParameterSpec_OrdinalValueSpec{OrdinalValueSpec: ordinal}
	case space.KindCategorical:
		categorical := &pb.CategoricalValueSpec{Values: p.Categories}
		out.ParameterValueSpec = &pb.ParameterSpec_CategoricalValueSpec{CategoricalValueSpec: categorical}
	default:
		out.ParameterValueSpec = &pb.ParameterSpec_DoubleValueSpec{DoubleValueSpec: double}
	}
	return out
}

// RuleFromProto reads one constraint and adds its violations to v.
func RuleFromProto(c *pb.DependencyConstraint, field string, v *Violations) space.Rule {
	out := space.Rule{ID: c.GetConstraintId(), Description: c.GetDescription()}
	switch r := c.GetRule().(type) {
	case *pb.DependencyConstraint_Ordering:
		o := r.Ordering
		out.Ordering = &space.Ordering{Params: o.GetParameterIds(), MinRatio: o.GetMinRatio(), MinGap: o.GetMinGap()}
	case *pb.DependencyConstraint_Activation:
		a := r.Activation
		c := conditionFromProto(a, field+".activation", v)
		out.Activation = &space.Activation{Param: a.GetParameterId(), When: a.GetWhenParameterId(), Op: c.Op,
			Value:  c.Value,
			Values: c.Values}
	case *pb.DependencyConstraint_Linear:
		out.Linear = &space.Linear{Max: r.Linear.GetMaxValue()}
		for _, t := range r.Linear.GetTerms() {
			out.Linear.Terms = append(out.Linear.Terms,
				space.Term{Param: t.GetParameterId(), Coefficient: t.GetCoefficient()})
		}
	case *pb.DependencyConstraint_Forbidden:
		out.Forbidden = &space.Forbidden{}
		for k, one := range r.Forbidden.GetConditions() {
			c := conditionFromProto(one, fmt.Sprintf("%s.forbidden.conditions[%d]", field, k), v)
			c.Param = one.GetParameterId()
			out.Forbidden.All = append(out.Forbidden.All, c)
		}
	default:
		v.Add(field+".rule", "is required: activation, ordering, linear or forbidden")
	}
	return out
}

// comparison is the common part of an activation and a condition.
type comparison interface {
	GetOperator() pb.ActivationRule_Operator
	GetValue() *structpb.Value
	GetValues() []*structpb.Value
}

// conditionFromProto reads a comparison; the caller names the parameter.
func conditionFromProto(from comparison, field string, v *Violations) space.Condition {
	out := space.Condition{Op: operators[from.GetOperator()]}
	var why string
	if out.Value, why = ValueFromProto(from.GetValue()); why != "" {
		v.Add(field+".value", "%s", why)
	}
	for k, one := range from.GetValues() {
		x, why := ValueFromProto(one)
		if why != "" {
			v.Add(fmt.Sprintf("%s.values[%d]", field, k), "%s", why)
		}
		out.Values = append(out.Values, x)
	}
	return out
}

func ruleToProto(r *space.Rule, sp *space.Space) *pb.DependencyConstraint {
	out := &pb.DependencyConstraint{ConstraintId: r.ID, Description: r.Description}
	if o := r.Ordering; o != nil {
		out.Rule = &pb.DependencyConstraint_Ordering{Ordering: &pb.OrderingRule{ParameterIds: o.Params,
			MinRatio: o.MinRatio,
			MinGap:   o.MinGap}}
	}
	if a := r.Activation; a != nil {
		value, values := comparedToProto(sp, a.When, a.Value, a.Values)
		rule := &pb.ActivationRule{ParameterId: a.Param, WhenParameterId: a.When, Operator: operatorOf(a.Op),
			Value:  value,
			Values: values}
		out.Rule = &pb.DependencyConstraint_Activation{Activation: rule}
	}
	if l := r.Linear; l != nil {
		rule := &pb.LinearRule{MaxValue: l.Max}
		for _, t := range l.Terms {
			rule.Terms = append(rule.Terms, &pb.LinearRule_Term{ParameterId: t.Param, Coefficient: t.Coefficient})
		}
		out.Rule = &pb.DependencyConstraint_Linear{Linear: rule}
	}
	if f := r.Forbidden; f != nil {
		rule := &pb.ForbiddenClause{}
		for _, c := range f.All {
			value, values := comparedToProto(sp, c.Param, c.Value, c.Values)
			rule.Conditions = append(rule.Conditions, &pb.ForbiddenClause_Condition{ParameterId: c.Param,
				Operator: operatorOf(c.Op), Value: value, Values: values})
		}
		out.Rule = &pb.DependencyConstraint_Forbidden{Forbidden: rule}
	}
	return out
}

// comparedToProto writes the values that a parameter is compared with.
func comparedToProto(sp *space.Space, param string, value space.Value,
	values []space.Value) (one *structpb.Value, all []*structpb.Value) {
	p, _ := sp.Param(param)
	for _, x := range values {
		all = append(all, ValueToProto(&p, x))
	}
	return ValueToProto(&p, value), all
}

var specPath = regexp.MustCompile(`^(parameters|rules)\[(\d+)\](.*)$`)

// renames are of fields that space and the API name differently.
var renames = []struct{ from, to string }{
	{".id", ".parameter_id"},
	{".array.length", ".array_spec.length_parameter_id"},
	{".array", ".array_spec"},
}

// FieldOf is the request's field for one of a specification in space's terms.
// at gives the place in the request of parameter or rule number i, -1 if it is
// built in. ok is false for violations of no single field of the request.
func FieldOf(spec *pb.SchedulerSpec, path string, at func(rule bool, i int) int) (field string, ok bool) {
	m := specPath.FindStringSubmatch(path)
	switch {
	case m == nil && path == "rules":
		return ConstraintsField, false
	case m == nil:
		return ParametersField, false
	}
	i, _ := strconv.Atoi(m[2])
	rule, rest := m[1] == "rules", m[3]
	if i = at(rule, i); i < 0 {
		if rule {
			return ConstraintsField, false
		}
		return ParametersField, false
	}
	if rule {
		rest = strings.NewReplacer(".id", ".constraint_id", ".ordering.params", ".ordering.parameter_ids",
			".activation.param", ".activation.parameter_id",
			".activation.when", ".activation.when_parameter_id", ".activation.op", ".activation.operator",
			".forbidden.all",
			".forbidden.conditions",
			".param", ".parameter_id", ".op", ".operator").Replace(rest)
		return fmt.Sprintf("%s[%d]%s", ConstraintsField, i, rest), true
	}
	p := spec.GetParameters()[i]
	switch {
	case rest == ".kind":
		rest = "." + valueSpecField(p)
	case rest == ".min_value", rest == ".max_value", rest == ".step":
		rest = "." + valueSpecField(p) + rest
	case strings.HasPrefix(rest, ".categories"):
		rest = "." + valueSpecField(p) + ".values" + strings.TrimPrefix(rest, ".categories")
	case strings.HasPrefix(rest, ".special_values"):
		rest = strings.Replace(rest, ".weight", ".sampling_weight", 1)
	default:
		for _, r := range renames {
			if tail, found := strings.CutPrefix(rest, r.from); found {
				rest = r.to + tail
				break
			}
		}
	}
	return fmt.Sprintf("%s[%d]%s", ParametersField, i, rest), true
}

// valueSpecField is the name of the field that holds a parameter's range.
func valueSpecField(p *pb.ParameterSpec) string {
	r := p.ProtoReflect()
	fd := r.WhichOneof(r.Descriptor().Oneofs().ByName("parameter_value_spec"))
	if fd == nil {
		return "parameter_value_spec"
	}
	name := string(fd.Name())
	if a := p.GetArraySpec(); a != nil {
		ar := a.ProtoReflect()
		if fd := ar.WhichOneof(ar.Descriptor().Oneofs().ByName("element_value_spec")); fd != nil {
			name += "." + string(fd.Name())
		}
	}
	return name
}
