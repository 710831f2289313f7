# attune_embed(<target> <function> ROOT <folder> FILES <file>...)
#
# Compiles text files into <target>: `std::span<const attune::EmbeddedFile> <function>()` in
# namespace attune (generator/embedded.h), sorted by name; names are relative to ROOT.
set(ATTUNE_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/embed_script.cmake)

function(attune_embed target function)
    cmake_parse_arguments(EMBED "" "ROOT" "FILES" ${ARGN})
    list(SORT EMBED_FILES)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
    add_custom_command(
        OUTPUT ${output}
        COMMAND ${CMAKE_COMMAND} -DFUNCTION=${function} -DROOT=${EMBED_ROOT} "-DFILES=${EMBED_FILES}"
                -DOUTPUT=${output} -P ${ATTUNE_EMBED_SCRIPT}
        DEPENDS ${EMBED_FILES} ${ATTUNE_EMBED_SCRIPT}
        VERBATIM)
    target_sources(${target} PRIVATE ${output})
endfunction()
