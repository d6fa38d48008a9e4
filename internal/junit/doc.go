// Package junit writes test results in the XML that CI systems read, JUnit's (https://github.com/testmoapp/junitxml).
//
//	err := junit.Write(w, junit.Suite{Name: "opsim test", Cases: []junit.Case{{Name: "halfcreate/faulty", Took: time.Second}}})
package junit
