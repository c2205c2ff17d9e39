package import ArgumentParser
import Glibc

/// The values that a shell completes with what the machine has at that moment.
///
/// Names with characters that mean something to a shell are left out. The kernel allows an interface `$(reboot)`, and the script
/// that ArgumentParser generates for bash would run it: `compgen -W` expands its words (bash(1), Programmable Completion).
package enum LiveCompletion {
    /// The names of the interfaces.
    package static let interfaces = CompletionKind.custom { _, _, _ in plain(interfaceNames()) }

    /// The names of the network namespaces (ip-netns(8)).
    package static let namespaces = CompletionKind.custom { _, _, _ in plain(namesInDirectory("/run/netns") ?? []).sorted() }

    /// The destination before the cursor, up to its percent sign, with each interface.
    package static let destinations = CompletionKind.custom { _, _, text in
        quoted(destinations(text, interfaces: interfaceNames()))
    }

    /// Returns values with escaped colons for zsh, which takes the text after a colon as a description.
    static func quoted(_ values: [String]) -> [String] {
        CompletionShell.requesting == .zsh ? values.map { $0.replacing(":", with: "\\:") } : values
    }

    /// Returns the destinations that a text with a percent sign, perhaps behind `--to=`, may become.
    static func destinations(_ text: String, interfaces: [String]) -> [String] {
        guard let percent = text.firstIndex(of: "%") else { return [] }
        let address = text[...percent].split(separator: "=").last ?? ""
        return plain(interfaces).map { "\(address)\($0)" }
    }

    /// Returns the names of letters, digits and `-_.+@` that begin with a letter or a digit.
    static func plain(_ names: [String]) -> [String] {
        names.filter { name in
            name.unicodeScalars.allSatisfy { isWord($0) || "-_.+@".unicodeScalars.contains($0) }
                && name.unicodeScalars.first.map(isWord) == true
        }
    }

    private static func isWord(_ scalar: Unicode.Scalar) -> Bool {
        scalar.isASCII && (scalar.properties.isAlphabetic || scalar.properties.numericType != nil)
    }

    /// Returns the names in the order of the interfaces' indexes (if_nameindex(3)).
    private static func interfaceNames() -> [String] {
        guard let list = if_nameindex() else { return [] }
        defer { if_freenameindex(list) }
        var names: [String] = []
        var entry = list
        while let name = entry.pointee.if_name {
            names.append(String(cString: name))
            entry += 1
        }
        return names
    }
}
