# Read by the presets at project(): compiles through ccache where there is one.
find_program(ATTUNE_CCACHE ccache)
if(ATTUNE_CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER ${ATTUNE_CCACHE})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${ATTUNE_CCACHE})
endif()
