package import Reachability

/// The text form of scopes in stores: the destination, and the properties that are set.
///
/// For example `internet`, `192.0.2.1 interface=eth0`, `example.org mark=7 port=443`. Stores compare it and do not read it.
/// Characters other than visible ASCII, and `%`, are percent-encoded.
package enum ScopeText {
    package static func text(of scope: Scope) -> String {
        var words: [String]
        switch scope.destination {
        case .internet: words = ["internet"]
        case .address(let address): words = ["\(address)"]
        case .host(let name): words = ["host=" + encode(name)]
        }
        if let interface = scope.interface { words.append("interface=" + encode(interface)) }
        if let mark = scope.mark { words.append("mark=\(mark)") }
        if let uid = scope.uid { words.append("uid=\(uid)") }
        if scope.transport != .tcp { words.append("protocol=\(scope.transport.rawValue)") }
        if let port = scope.port { words.append("port=\(port)") }
        return words.joined(separator: " ")
    }

    /// Reads the text form; `nil` if this version cannot read it.
    package static func scope(from text: String) -> Scope? {
        var words = text.split(separator: " ", omittingEmptySubsequences: false)[...]
        guard let first = words.popFirst(), var scope = destination(first) else { return nil }
        for word in words {
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, set(String(parts[0]), parts[1], of: &scope) else { return nil }
        }
        return scope
    }

    private static func destination(_ word: Substring) -> Scope? {
        if word == "internet" { return .internet }
        if word.hasPrefix("host=") { return decode(word.dropFirst(5)).map(Scope.host) }
        return IPAddress(String(word)).map(Scope.address)
    }

    /// Sets a property; returns false if it is not known or its value cannot be read.
    private static func set(_ name: String, _ value: Substring, of scope: inout Scope) -> Bool {
        func put<Value>(_ value: Value?, _ property: WritableKeyPath<Scope, Value?>) -> Bool {
            scope[keyPath: property] = value
            return value != nil
        }
        switch name {
        case "interface": return put(decode(value), \.interface)
        case "mark": return put(UInt32(value), \.mark)
        case "uid": return put(UInt32(value), \.uid)
        case "port": return put(UInt16(value), \.port)
        case "protocol":
            guard let number = UInt8(value) else { return false }
            scope.transport = Scope.Transport(rawValue: number)
            return true
        default: return false
        }
    }

    private static func encode(_ text: String) -> String {
        text.utf8.map { byte in
            let isPlain = (0x21...0x7e).contains(byte) && byte != UInt8(ascii: "%")
            return isPlain ? String(UnicodeScalar(byte)) : "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }.joined()
    }

    private static func decode(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard rest.count >= 2, let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) else { return nil }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
