package import Foundation
package import Testing

/// The documents of the package, and the compiled files that they show.
package enum Documents {
    package static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    package static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }

    /// Returns the code blocks of a text in a language.
    package static func blocks(of language: String, in text: String) -> [String] {
        text.components(separatedBy: "```\(language)\n").dropFirst().map { $0.components(separatedBy: "```")[0] }
    }

    /// Returns the Swift code blocks of a document.
    package static func swiftBlocks(_ path: String) throws -> [String] { blocks(of: "swift", in: try text(path)) }

    /// Checks that the code blocks of a document are the files of folders.
    package static func expect(
        _ document: String, toShowTheFilesOf folders: [String], in languages: [String] = ["swift"],
        _ location: SourceLocation = #_sourceLocation
    ) throws {
        let page = try text(document)
        let shown = languages.flatMap { blocks(of: $0, in: page) }
        var compiled: [String: String] = [:]
        for folder in folders {
            for name in try FileManager.default.contentsOfDirectory(atPath: root.appendingPathComponent(folder).path)
            where languages.contains(URL(fileURLWithPath: name).pathExtension) {
                compiled[try text("\(folder)/\(name)")] = name
            }
        }
        for block in shown {
            #expect(compiled[block] != nil, "no file of \(folders) says this:\n\(block)", sourceLocation: location)
        }
        for (text, name) in compiled {
            #expect(shown.contains(text), "\(name) is not in the text as it is", sourceLocation: location)
        }
        #expect(shown.count == compiled.count, sourceLocation: location)
    }
}
