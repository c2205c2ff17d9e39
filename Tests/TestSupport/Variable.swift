internal import Glibc

/// Returns the value of an environment variable, such as one for long runs; `nil` without it.
package func variable<Value: LosslessStringConvertible>(_ name: String) -> Value? {
    getenv(name).flatMap { Value(String(cString: $0)) }
}
