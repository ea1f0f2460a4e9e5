package rules
import ("testing";"fmt";"strings";"time";"runtime")
func TestZZ(t *testing.T){
 for name,f:=range map[string]func(b *strings.Builder){
  "rules":func(b *strings.Builder){ b.WriteString("domain: d\ndescriptors:\n"); for i:=0;b.Len()<MaxFileSize-200;i++{ fmt.Fprintf(b,"- {key: path, value: /v1/resource/%d, rate_limit: {unit: minute, requests_per_unit: 5}}\n",i)}},
  "commas":func(b *strings.Builder){ b.WriteString("domain: d\ndescriptors: ["); for b.Len()<MaxFileSize-200{ b.WriteString("{},")}; b.WriteString("]")},
  "wild":func(b *strings.Builder){ b.WriteString("domain: d\ndescriptors:\n"); for i:=0;i<50000;i++{ fmt.Fprintf(b,"- {key: path, value: '*%d*', rate_limit: {unit: minute, requests_per_unit: 5}}\n",i)}},
  "keys":func(b *strings.Builder){ b.WriteString("domain: d\n"); for i:=0;b.Len()<MaxFileSize-200;i++{ fmt.Fprintf(b,"k%d: 1\n",i)}},
 }{
  var b strings.Builder; f(&b)
  s:=time.Now(); var m runtime.MemStats
  set,err:=Load([]File{{"f",[]byte(b.String())}},Options{Compat:true})
  runtime.ReadMemStats(&m)
  fmt.Println(name,b.Len(),time.Since(s),m.Sys>>20,"MiB",err!=nil)
  if err==nil{ fmt.Println(set.NumRules()); s=time.Now(); fmt.Println(len(Lint(set)),time.Since(s)); s=time.Now(); Diff(set,set); fmt.Println(time.Since(s))}
 }
}
