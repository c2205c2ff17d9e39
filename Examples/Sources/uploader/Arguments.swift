import ArgumentParser
import Foundation

/// Reads a length of time: `500ms`, `2s`, `5m`, `1h`.
func duration(_ text: String) throws -> Duration {
    let milliseconds = ["ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000]
    guard let match = text.wholeMatch(of: #/([0-9]{1,9})(ms|s|m|h)/#), let number = Int(match.1), number > 0,
        let unit = milliseconds[String(match.2)]
    else { throw ValidationError("a duration is a number above zero and a unit: 500ms, 2s, 5m or 1h") }
    return .milliseconds(number * unit)
}

/// Reads the URL of a server.
func serverURL(_ text: String) throws -> URL {
    guard let url = URL(string: text), ["http", "https"].contains(url.scheme), url.host() != nil else {
        throw ValidationError("it takes a URL such as http://127.0.0.1:8080/")
    }
    return url
}
