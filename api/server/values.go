package server

import (
	"math"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/autosched/autosched/space"
)

// valueToProto writes a value; nil for a parameter without one.
func valueToProto(p *space.Param, v space.Value) *structpb.Value {
	switch {
	case v.IsZero():
		return nil
	case p.Array != nil:
		list := &structpb.ListValue{}
		for _, x := range v.Floats() {
			list.Values = append(list.Values, structpb.NewNumberValue(x))
		}
		return structpb.NewListValue(list)
	case p.Kind == space.KindBool:
		return structpb.NewBoolValue(v.Bool())
	case p.Kind == space.KindCategorical || p.Kind == space.KindOrdinal:
		return structpb.NewStringValue(v.Text())
	}
	return structpb.NewNumberValue(v.Float())
}

// valueFromProto reads a value of any parameter; why says what is wrong with
// it by itself. No value at all is the zero Value.
func valueFromProto(v *structpb.Value) (out space.Value, why string) {
	number := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	switch k := v.GetKind().(type) {
	case nil:
		return space.Value{}, ""
	case *structpb.Value_NumberValue:
		if !number(k.NumberValue) {
			return out, "is not a finite number"
		}
		return space.Num(k.NumberValue), ""
	case *structpb.Value_BoolValue:
		return space.Bool(k.BoolValue), ""
	case *structpb.Value_StringValue:
		return space.Text(k.StringValue), ""
	case *structpb.Value_ListValue:
		nums := make([]float64, len(k.ListValue.GetValues()))
		for i, e := range k.ListValue.GetValues() {
			n, ok := e.GetKind().(*structpb.Value_NumberValue)
			if !ok || !number(n.NumberValue) {
				return out, "is a list of something else than finite numbers"
			}
			nums[i] = n.NumberValue
		}
		return space.Nums(nums...), ""
	}
	return out, "is neither a number, true or false, a text nor a list of numbers"
}

// sameShape reports whether a value could be one of the parameter, in its
// range or not.
func sameShape(p *space.Param, v *structpb.Value) bool {
	switch v.GetKind().(type) {
	case *structpb.Value_ListValue:
		return p.Array != nil
	case *structpb.Value_BoolValue:
		return p.Kind == space.KindBool
	case *structpb.Value_StringValue:
		return p.Kind == space.KindCategorical || p.Kind == space.KindOrdinal
	case *structpb.Value_NumberValue:
		return p.Array == nil && p.Kind != space.KindBool && p.Kind != space.KindCategorical &&
			p.Kind != space.KindOrdinal
	}
	return false
}
