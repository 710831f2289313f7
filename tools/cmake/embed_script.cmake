# Run by attune_embed: writes OUTPUT with the text of FILES as raw string literals.
set(text "#include \"generator/embedded.h\"\n\nnamespace attune {\nnamespace {\n\nconst EmbeddedFile files[] = {\n")
foreach(file IN LISTS FILES)
    file(READ ${file} content)
    file(RELATIVE_PATH name ${ROOT} ${file})
    string(APPEND text "{\"${name}\", R\"attune_embed(${content})attune_embed\"},\n")
endforeach()
string(APPEND text "};\n\n}  // namespace\n\nstd::span<const EmbeddedFile> ${FUNCTION}() {\n    return files;\n}\n\n}  // namespace attune\n")
file(WRITE ${OUTPUT} "${text}")
