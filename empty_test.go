package headgate

import (
	"reflect"
	"testing"
)

// TestEmptyResponse: what a Response is emptied of is all that it has, but for the room of its
// verdicts.
func TestEmptyResponse(t *testing.T) {
	var r Response
	for i, value := 0, reflect.ValueOf(&r).Elem(); i < value.NumField(); i++ {
		switch field := value.Field(i); field.Kind() {
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Array:
			reflect.Copy(field, reflect.ValueOf([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}))
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 2, 2))
		case reflect.Uint64:
			field.SetUint(7)
		default:
			field.SetInt(7)
		}
		if value.Field(i).IsZero() {
			t.Fatalf("%s is not set", value.Type().Field(i).Name)
		}
	}
	r.empty()
	if len(r.Verdicts) != 0 || cap(r.Verdicts) != 2 {
		t.Errorf("%d verdicts, room for %d", len(r.Verdicts), cap(r.Verdicts))
	}
	r.Verdicts = nil
	if !reflect.ValueOf(r).IsZero() {
		t.Errorf("left: %+v", r)
	}
}
