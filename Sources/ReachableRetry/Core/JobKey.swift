package typealias JobIndex = Int32
